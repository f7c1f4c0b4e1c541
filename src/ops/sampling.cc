#include "ops/sampling.h"

#include "ops/check.h"

namespace fathom::ops {

Tensor sample(Context& ctx, const Tensor& logits, const SampleArgs& args) {
  CHECK(logits.dtype() == DType::f32 && logits.rank() == 2, "sample: logits are {} {}", name_of(logits.dtype()),
        to_string(logits.shape()));
  const Shape n{logits.dim(0)};
  CHECK(args.rows.dtype() == DType::u8, "sample: rows are {}", name_of(args.rows.dtype()));
  check_shape("sample", "rows", args.rows, {logits.dim(0), sizeof(RowSampling)});
  Tensor ids = ctx.arena.empty(n, DType::i32);
  run(ctx, op::Sample{ids, logits, args});
  run(ctx, op::MarkNotFinite{ids, logits});
  return ids;
}

bool advance(Context& ctx, const Batch& batch, const Tensor& drawn, const SampleArgs& sampling, const Tensor& log,
             i64 block_size) {
  CHECK(batch.runs.size() == 1 && batch.tokens() == batch.runs[0].sequences() && drawn.dim(0) == batch.tokens() &&
            log.dim(1) == batch.tokens(),
        "advance: {} tokens in {} runs of sequences, {} drawn", batch.tokens(), batch.runs.size(), drawn.dim(0));
  return ctx.backend.try_run(op::Advance{batch, drawn, sampling, log, block_size});
}

}  // namespace fathom::ops
