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
  enorm_(ctx, both.narrow(1, 0, dim), embed_(ctx, batch.ids));
  hnorm_(ctx, both.narrow(1, dim, dim), h);
  const Tensor x = eh_proj_(ctx, both, DType::f32);
  block_(ctx, x, freqs, batch, cache);
  return head_(ctx, norm_(ctx, ops::gather_rows(ctx, x, batch.logit_rows)));
}

}  // namespace fathom
