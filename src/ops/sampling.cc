#include "ops/sampling.h"

#include "ops/check.h"

namespace fathom::ops {

Tensor sample(Context& ctx, const Tensor& logits, const SampleArgs& args) {
  CHECK(logits.dtype() == DType::f32 && logits.rank() == 2, "sample: logits are {} {}", name_of(logits.dtype()),
        to_string(logits.shape()));
  const Shape n{logits.dim(0)};
  for (const Tensor* parameter :
       {&args.temperature, &args.top_k, &args.top_p, &args.min_p, &args.repetition_penalty, &args.seed, &args.step})
    check_shape("sample", "a parameter", *parameter, n);
  Tensor ids = ctx.arena.empty(n, DType::i32);
  ctx.backend.run(op::Sample{ids, logits, args});
  ctx.backend.run(op::MarkNotFinite{ids, logits});
  return ids;
}

bool advance(Context& ctx, const Batch& batch, const Tensor& drawn, const Tensor& step, const Tensor& log,
             i64 block_size) {
  CHECK(batch.runs.size() == 1 && batch.tokens() == batch.runs[0].sequences() && drawn.dim(0) == batch.tokens() &&
            log.dim(1) == batch.tokens(),
        "advance: {} tokens in {} runs of sequences, {} drawn", batch.tokens(), batch.runs.size(), drawn.dim(0));
  return ctx.backend.try_run(op::Advance{batch, drawn, step, log, block_size});
}

}  // namespace fathom::ops
