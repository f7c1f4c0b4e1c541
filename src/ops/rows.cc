#include "ops/rows.h"

#include "ops/check.h"

namespace fathom::ops {

Tensor embedding(Context& ctx, const Tensor& table, const Tensor& ids, i64 first) {
  check_activation("embedding", "table", table, 2);
  check_integers("embedding", "ids", ids, {ids.dim(0)});
  Tensor y = ctx.arena.empty({ids.dim(0), table.dim(1)}, DType::f32);
  run(ctx, op::Embedding{y, table, ids, first});
  return y;
}

Tensor gather_rows(Context& ctx, const Tensor& x, const Tensor& rows) {
  check_activation("gather_rows", "x", x, 2);
  check_integers("gather_rows", "rows", rows, {rows.dim(0)});
  Tensor y = ctx.arena.empty({rows.dim(0), x.dim(1)}, x.dtype());
  run(ctx, op::GatherRows{y, x, rows});
  return y;
}

void copy(Context& ctx, const Tensor& y, const Tensor& x) {
  CHECK(is_activation(x) && is_activation(y), "copy: {} to {}", name_of(x.dtype()), name_of(y.dtype()));
  check_shape("copy", "y", y, x.shape());
  run(ctx, op::Copy{y, x});
}

void add_(Context& ctx, const Tensor& x, const Tensor& y) {
  CHECK(is_activation(x) && is_activation(y) && x.contiguous() && y.contiguous(), "add_: needs contiguous f32 or bf16");
  check_shape("add_", "y", y, x.shape());
  run(ctx, op::Add{x, y});
}

Tensor apply(Context& ctx, const Normed& x) {
  if (!x.pending()) return x.x;
  Tensor y = ctx.arena.empty(x.x.shape(), ctx.options.compute);
  rms_norm(ctx, y, x.x, x.norm);
  return y;
}

void rms_norm(Context& ctx, const Tensor& y, const Tensor& x, const Norm& norm) {
  check_activation("rms_norm", "x", x, 2);
  check_activation("rms_norm", "y", y, 2);
  check_shape("rms_norm", "y", y, x.shape());
  check_shape("rms_norm", "gain", norm.gain, {x.dim(1)});
  CHECK(norm.gain.dtype() == DType::f32, "rms_norm: gain is {}, expected f32", name_of(norm.gain.dtype()));
  run(ctx, op::RmsNorm{y, x, norm});
}

Tensor silu_mul(Context& ctx, const Tensor& a, const Tensor& b) {
  check_activation("silu_mul", "a", a, 2);
  check_activation("silu_mul", "b", b, 2);
  check_shape("silu_mul", "b", b, a.shape());
  Tensor y = ctx.arena.empty(a.shape(), ctx.options.compute);
  run(ctx, op::SiluMul{y, a, b});
  return y;
}

}  // namespace fathom::ops
