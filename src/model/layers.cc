#include "model/layers.h"

namespace fathom {
namespace {

// The reference's parallel layers do not pass scale_fmt on, so their activation scales are not rounded to powers of
// two.
const Format& parallel_format(const Params& p) {
  const Format& format = p.args().format();
  return p.options().reference_scale_fmt && &format == &kFp8Block128Ue8m0 ? kFp8Block128 : format;
}

i64 vocabulary_part(const Params& p, i64 vocab_size) {
  CHECK(vocab_size % p.world_size() == 0, "Vocabulary size must be divisible by world size (world_size={}); it is {}",
        p.world_size(), vocab_size);
  return vocab_size / p.world_size();
}

}  // namespace

ColumnParallelLinear::ColumnParallelLinear(const Params& p, i64 in, i64 out)
    : weight_(p.matrix(out, in, Split::out, parallel_format(p))) {}

RowParallelLinear::RowParallelLinear(const Params& p, i64 in, i64 out)
    : weight_(p.matrix(out, in, Split::in, parallel_format(p))) {}

Tensor RowParallelLinear::operator()(Context& ctx, const Tensor& x) const {
  Tensor y = ops::linear(ctx, x, weight_, DType::f32);
  ctx.comm.all_reduce(y);
  return y;
}

void RowParallelLinear::add_(Context& ctx, const Tensor& h, const Tensor& x) const {
  if (ctx.comm.size() == 1) return ops::linear_add_(ctx, h, x, weight_);
  const ArenaScope scope(ctx.arena);
  ops::add_(ctx, h, (*this)(ctx, x));
}

ParallelEmbedding::ParallelEmbedding(const Params& p, i64 vocab_size, i64 dim)
    : vocab_start_(vocabulary_part(p, vocab_size) * p.rank()) {
  weight_ = p.plain_matrix(vocab_size, dim, Split::out).data;
}

Tensor ParallelEmbedding::operator()(Context& ctx, const Tensor& ids) const {
  Tensor y = ops::embedding(ctx, weight_, ids, vocab_start_);
  ctx.comm.all_reduce(y);
  return y;
}

ParallelHead::ParallelHead(const Params& p, i64 dim, i64 vocab_size) {
  vocabulary_part(p, vocab_size);
  weight_ = p.plain_matrix(vocab_size, dim, Split::out);
}

Tensor ParallelHead::operator()(Context& ctx, const Tensor& x) const {
  const i64 n = x.dim(0), part = weight_.out(), ranks = ctx.comm.size();
  if (ranks == 1) return ops::linear(ctx, x, weight_, DType::f32);
  const Tensor logits = ctx.arena.empty({n, part * ranks}, DType::f32);
  const ArenaScope scope(ctx.arena);
  const Tensor parts = ctx.arena.empty({ranks, n, part}, DType::f32);
  ctx.comm.all_gather(parts, ops::linear(ctx, x, weight_, DType::f32));
  for (i64 r = 0; r < ranks; ++r) ops::copy(ctx, logits.narrow(1, r * part, part), parts[r]);
  return logits;
}

}  // namespace fathom
