#include "ops/collectives.h"

#include "ops/check.h"

namespace fathom::ops {

void all_reduce(Context& ctx, const Tensor& x) {
  CHECK(is_activation(x) && x.contiguous(), "all_reduce: needs contiguous f32 or bf16, not {}", name_of(x.dtype()));
  if (ctx.comm.size() > 1) run(ctx, op::AllReduce{x, ctx.comm});
}

Tensor gather_columns(Context& ctx, const Tensor& x) {
  check_activation("gather_columns", "x", x, 2);
  const i64 ranks = ctx.comm.size(), n = x.dim(0), part = x.dim(1);
  if (ranks == 1) return x;
  const Tensor y = ctx.arena.empty({n, ranks * part}, x.dtype());
  const ArenaScope scope(ctx.arena);
  const Tensor parts = ctx.arena.empty({ranks, n, part}, x.dtype());
  run(ctx, op::AllGather{parts, x, ctx.comm});
  for (i64 r = 0; r < ranks; ++r) copy(ctx, y.narrow(1, r * part, part), parts[r]);
  return y;
}

Normed reduce_add_norm(Context& ctx, const Tensor& h, const Tensor& y, const Norm& next) {
  check_shape("reduce_add_norm", "y", y, h.shape());
  if (ctx.comm.size() == 1) {
    add_(ctx, h, y);
  } else {
    CHECK(h.dtype() == DType::f32 && h.contiguous() && is_activation(y) && y.contiguous(),
          "reduce_add_norm: needs contiguous f32, not {} and {}", name_of(h.dtype()), name_of(y.dtype()));
    run(ctx, op::AddReduced{h, y, ctx.comm});
  }
  return {h, next};
}

}  // namespace fathom::ops
