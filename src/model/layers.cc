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
    : weight(p.matrix(out, in, Split::out, parallel_format(p))) {}

RowParallelLinear::RowParallelLinear(const Params& p, i64 in, i64 out)
    : weight(p.matrix(out, in, Split::in, parallel_format(p))) {}

ParallelEmbedding::ParallelEmbedding(const Params& p, i64 vocab_size, i64 dim)
    : vocab_start_(vocabulary_part(p, vocab_size) * p.rank()) {
  weight_ = p.plain_matrix(vocab_size, dim, Split::out).data;
}

Tensor ParallelEmbedding::operator()(Context& ctx, const Tensor& ids) const {
  Tensor y = ops::embedding(ctx, weight_, ids, vocab_start_);
  ops::all_reduce(ctx, y);
  return y;
}

ParallelHead::ParallelHead(const Params& p, i64 dim, i64 vocab_size) {
  vocabulary_part(p, vocab_size);
  weight_ = p.plain_matrix(vocab_size, dim, Split::out);
}

}  // namespace fathom
