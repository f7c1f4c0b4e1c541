#include "model/mtp.h"

namespace fathom {

MTP::MTP(const Params& p, i64 layer_id)
    : embed_(p.sub("embed"), p.args().vocab_size, p.args().dim),
      enorm_(p.sub("enorm"), p.args().dim),
      hnorm_(p.sub("hnorm"), p.args().dim),
      eh_proj_(p.sub("eh_proj").plain_matrix(p.args().dim, 2 * p.args().dim, Split::none)),
      block_(p, layer_id),
      norm_(p.sub("shared_head").sub("norm"), p.args().dim),
      head_(p.sub("shared_head").sub("head"), p.args().dim, p.args().vocab_size) {
  p.load();
}

Tensor MTP::operator()(Context& ctx, const Tensor& h, const Tensor& freqs, const Batch& batch,
                       const CacheLayer& cache) const {
  const i64 tokens = h.dim(0), dim = h.dim(1);
  const Tensor both = ctx.arena.empty({tokens, 2 * dim}, ctx.options.compute);
  ops::rms_norm(ctx, both.narrow(1, 0, dim), embed_(ctx, batch.ids), enorm_);
  ops::rms_norm(ctx, both.narrow(1, dim, dim), h, hnorm_);
  const Tensor x = eh_proj_(ctx, both, DType::f32);
  const Normed y = block_(ctx, x, block_.attn_norm()(x), freqs, batch.runs, cache, norm_);
  return head_(ctx, {ops::gather_rows(ctx, y.x, batch.logit_rows), y.norm});
}

}  // namespace fathom
