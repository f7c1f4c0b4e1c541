#include "ops/products.h"

#include <algorithm>

#include "ops/check.h"
#include "ops/collectives.h"
#include "ops/dequantized.h"

namespace fathom::ops {
namespace {

void check_weight(const char* op, const Weight& w, int rank) {
  CHECK(w.shape().rank() == rank, "{}: weight has shape {}, expected {} dimensions", op, to_string(w.shape()), rank);
  CHECK(w.data.dtype() == w.format->element(), "{}: weight is {}, its format is {}", op, name_of(w.data.dtype()),
        w.format->name());
  CHECK(w.scale.defined() == w.format->has_scale() && w.zero.defined() == w.format->has_zero(),
        "{}: format {} and scales disagree", op, w.format->name());
}

// The reference's act_quant asserts this.
void check_quantizable(const Context& ctx, const Weight& w) {
  const i64 group = w.format->activation_group();
  CHECK(ctx.options.gemm != GemmMode::fp8 || group == 0 || w.in() % group == 0,
        "Last dimension size must be divisible by block_size (block_size={}); it is {}: use --gemm bf16", group,
        w.in());
}

void check_product(const Context& ctx, const char* op, const Tensor& x, const Weight& w, int rank) {
  check_activation(op, "x", x, 2);
  check_weight(op, w, rank);
  check_shape(op, "x", x, {x.dim(0), w.in()});
  check_quantizable(ctx, w);
}

}  // namespace

std::vector<Tensor> linear(Context& ctx, const Normed& x, std::initializer_list<Product> products) {
  std::vector<Tensor> ys;
  std::vector<Weight> ws;
  for (const Product& p : products) {
    check_product(ctx, "linear", x.x, p.w, 2);
    ys.push_back(ctx.arena.empty({x.x.dim(0), p.w.out()}, out_type(ctx, p.out)));
    ws.push_back(p.w);
  }
  const bool fusable = std::ranges::all_of(ws, [&](const Weight& w) { return supported(ctx, {w}); });
  if (x.pending() && fusable && try_run(ctx, op::NormLinear{ys, x, ws, ctx.options.gemm})) return ys;
  const ArenaScope scope(ctx.arena);
  const Tensor rows = apply(ctx, x);
  for (std::size_t i = 0; i < ys.size(); ++i) linear_into(ctx, ys[i], rows, ws[i]);
  return ys;
}

Tensor linear(Context& ctx, const Normed& x, const Weight& w, std::optional<DType> out) {
  return linear(ctx, x, {{w, out}})[0];
}

Tensor grouped_linear(Context& ctx, const Tensor& x, const Weight& w, const Tensor& offsets, std::optional<DType> out) {
  check_product(ctx, "grouped_linear", x, w, 3);
  check_integers("grouped_linear", "offsets", offsets, {w.shape()[0] + 1});
  Tensor y = ctx.arena.empty({x.dim(0), w.out()}, out_type(ctx, out));
  grouped_linear_into(ctx, y, x, w, offsets);
  return y;
}

void head_matmul(Context& ctx, const Tensor& y, const Tensor& x, const Tensor& w, bool transposed) {
  check_activation("head_matmul", "x", x, 3);
  check_activation("head_matmul", "w", w, 3);
  check_activation("head_matmul", "y", y, 3);
  const i64 k = w.dim(transposed ? 1 : 2), n = w.dim(transposed ? 2 : 1);
  check_shape("head_matmul", "x", x, {x.dim(0), w.dim(0), k});
  check_shape("head_matmul", "y", y, {x.dim(0), w.dim(0), n});
  run(ctx, op::HeadMatmul{y, x, w, transposed});
}

Normed linear_add_norm(Context& ctx, const Tensor& h, const Tensor& x, const Weight& w, const Norm& next) {
  check_product(ctx, "linear_add_norm", x, w, 2);
  check_shape("linear_add_norm", "h", h, {x.dim(0), w.out()});
  const bool fusable = ctx.comm.size() == 1 && supported(ctx, {w});
  if (fusable && try_run(ctx, op::LinearAdd{h, x, w, ctx.options.gemm})) return {h, next};
  const ArenaScope scope(ctx.arena);
  return reduce_add_norm(ctx, h, linear(ctx, x, w, DType::f32), next);
}

}  // namespace fathom::ops
