#include "ops/experts.h"

#include "ops/check.h"
#include "ops/collectives.h"
#include "ops/dequantized.h"

namespace fathom::ops {
namespace {

// This rank's part of the sum: float32 [T, dim].
Tensor experts(Context& ctx, const Tensor& x, const ExpertsLayer& layer) {
  const auto& [gate, routed_experts, first, shared] = layer;
  const auto [weights, indices] = route(ctx, x, gate);
  const Routed routed = group_by_expert(ctx, x, indices, first, layer.n_local());
  const Tensor hidden = grouped_swiglu(ctx, routed.rows, routed_experts.w1, routed_experts.w3, routed.offsets);
  const Tensor y = combine(ctx, grouped_linear(ctx, hidden, routed_experts.w2, routed.offsets), routed, weights);
  const auto gate_up = linear(ctx, x, {{shared.w1}, {shared.w3}});
  add_(ctx, y, linear(ctx, silu_mul(ctx, gate_up[0], gate_up[1]), shared.w2, DType::f32));
  return y;
}

}  // namespace

Routing route(Context& ctx, const Normed& x, const Gate& gate) {
  const i64 tokens = x.x.dim(0), experts = gate.weight.out();
  const Shape shape{tokens, gate.route.top_k};
  const Routing routing{ctx.arena.empty(shape, DType::f32), ctx.arena.empty(shape, DType::i32)};
  const ArenaScope scope(ctx.arena);
  const Tensor logits = linear(ctx, x, gate.weight, DType::f32);
  if (gate.bias.defined()) check_shape("route", "bias", gate.bias, {experts});
  CHECK(gate.route.top_k <= experts, "route: {} experts are too few to choose {}", experts, gate.route.top_k);
  run(ctx, op::Route{routing.weights, routing.indices, logits, gate.bias, gate.route});
  return routing;
}

Routed group_by_expert(Context& ctx, const Tensor& x, const Tensor& indices, i64 first, i64 n_local) {
  check_activation("group_by_expert", "x", x, 2);
  check_integers("group_by_expert", "indices", indices, {x.dim(0), indices.dim(1)});
  const Routed routed{ctx.arena.empty({x.dim(0) * indices.dim(1), x.dim(1)}, x.dtype()),
                      ctx.arena.empty({n_local + 1}, DType::i32), ctx.arena.empty(indices.shape(), DType::i32)};
  run(ctx, op::GroupByExpert{routed, x, indices, first});
  return routed;
}

Tensor combine(Context& ctx, const Tensor& rows, const Routed& routed, const Tensor& weights) {
  check_activation("combine", "rows", rows, 2);
  check_shape("combine", "weights", weights, routed.places.shape());
  Tensor y = ctx.arena.empty({weights.dim(0), rows.dim(1)}, DType::f32);
  run(ctx, op::Combine{y, rows, routed, weights});
  return y;
}

Tensor grouped_swiglu(Context& ctx, const Tensor& x, const Weight& w1, const Weight& w3, const Tensor& offsets) {
  const Tensor y = ctx.arena.empty({x.dim(0), w1.out()}, ctx.options.compute);
  if (supported(ctx, {w1, w3}) && try_run(ctx, op::GroupedSwiGlu{y, x, w1, w3, offsets, ctx.options.gemm})) return y;
  const ArenaScope scope(ctx.arena);
  const Tensor gate = grouped_linear(ctx, x, w1, offsets), up = grouped_linear(ctx, x, w3, offsets);
  run(ctx, op::SiluMul{y, gate, up});
  return y;
}

Normed experts_add_norm(Context& ctx, const Tensor& h, const Normed& x, const ExpertsLayer& layer, const Norm& next) {
  const SwiGlu &e = layer.experts, &s = layer.shared;
  const bool alone = ctx.comm.size() == 1;  // then the sum is added where it is made
  const ArenaScope scope(ctx.arena);
  if (x.pending() && supported(ctx, {e.w1, e.w2, e.w3, s.w1, s.w2, s.w3})) {
    const Tensor y = alone ? h : ctx.arena.empty(h.shape(), DType::f32);
    if (try_run(ctx, op::Experts{y, x.x, x.norm, layer, alone, ctx.options.gemm}))
      return alone ? Normed{h, next} : reduce_add_norm(ctx, h, y, next);
  }
  return reduce_add_norm(ctx, h, experts(ctx, apply(ctx, x), layer), next);
}

}  // namespace fathom::ops
