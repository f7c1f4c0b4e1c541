#include "ops/dequantized.h"

#include <algorithm>

#include "ops/check.h"

namespace fathom::ops {
namespace {

// Of the part of a matrix that is dequantised at once; an expert comes whole.
constexpr i64 kSlabBytes = i64{64} << 20;

// float32, so that the numbers enter the product unrounded as those of other formats do.
Weight dequantized(Context& ctx, const Weight& w, const Tensor& rows) {
  const Tensor y = ctx.arena.empty({w.out(), w.in()}, DType::f32);
  run(ctx, op::Dequantize{y, w, rows});
  return {y, {}, &kF32};
}

}  // namespace

bool supported(const Context& ctx, std::initializer_list<std::reference_wrapper<const Weight>> weights) {
  return std::ranges::all_of(weights, [&](const Weight& w) { return ctx.backend.supports(*w.format); });
}

void linear_into(Context& ctx, const Tensor& y, const Tensor& x, const Weight& w) {
  if (supported(ctx, {w})) return run(ctx, op::Linear{y, x, w, ctx.options.gemm});
  const i64 unit = w.format->unit(0), fitting = kSlabBytes / (w.in() * size_of(DType::f32));
  const i64 step = std::max<i64>(1, fitting / unit) * unit;
  for (i64 row = 0; row < w.out(); row += step) {
    const ArenaScope scope(ctx.arena);
    const i64 count = std::min(step, w.out() - row);
    const Weight part = dequantized(ctx, w.rows(row, count), {});
    run(ctx, op::Linear{y.narrow(1, row, count), x, part, ctx.options.gemm});
  }
}

void grouped_linear_into(Context& ctx, const Tensor& y, const Tensor& x, const Weight& w, const Tensor& offsets) {
  if (supported(ctx, {w})) return run(ctx, op::GroupedLinear{y, x, w, offsets, ctx.options.gemm});
  for (i64 e = 0; e + 1 < offsets.dim(0); ++e) {
    const ArenaScope scope(ctx.arena);
    const Tensor rows = offsets.narrow(0, e, 2);
    Weight one = dequantized(ctx, w[e], rows);
    one.data = one.data.view({1, w.out(), w.in()});
    run(ctx, op::GroupedLinear{y, x, one, rows, ctx.options.gemm});
  }
}

}  // namespace fathom::ops
