#include "model/ffn.h"

#include "ops/dequantized.h"

namespace fathom {
namespace {

i64 local_experts(const Params& p) {
  const i64 n = p.args().n_routed_experts;
  CHECK(n % p.world_size() == 0, "Number of experts must be divisible by world size (world_size={}); it is {}",
        p.world_size(), n);
  return n / p.world_size();
}

}  // namespace

Gate::Gate(const Params& p)
    : weight_(p.plain_matrix(p.args().n_routed_experts, p.args().dim, Split::none)),
      bias_(p.args().gate_bias ? p.vector("bias", p.args().n_routed_experts) : Tensor{}),
      route_{p.args().n_activated_experts,     p.args().n_expert_groups, p.args().n_limited_groups,
             p.args().score_func == "sigmoid", p.args().norm_topk_prob,  static_cast<float>(p.args().route_scale)} {}

ops::Routing Gate::operator()(Context& ctx, const Tensor& x) const {
  return ops::route(ctx, weight_(ctx, x, DType::f32), bias_, route_);
}

Expert::Expert(const Params& p, i64 dim, i64 inter_dim, i64 first, i64 n)
    : w1_(p.stack("w1", first, n, inter_dim, dim)),
      w2_(p.stack("w2", first, n, dim, inter_dim)),
      w3_(p.stack("w3", first, n, inter_dim, dim)) {}

Tensor Expert::operator()(Context& ctx, const Routed& routed) const {
  return ops::grouped_linear(ctx, ops::grouped_swiglu(ctx, routed.rows, w1_, w3_, routed.offsets), w2_, routed.offsets);
}

MoE::MoE(const Params& p)
    : n_local_experts_(local_experts(p)),
      experts_start_(n_local_experts_ * p.rank()),
      gate_(p.sub("gate")),
      experts_(p.sub("experts"), p.args().dim, p.args().moe_inter_dim, experts_start_, n_local_experts_),
      shared_experts_(p.sub("shared_experts"), p.args().dim, p.args().n_shared_experts * p.args().moe_inter_dim) {}

Tensor MoE::operator()(Context& ctx, const Tensor& x) const {
  const auto [weights, indices] = gate_(ctx, x);
  const Routed routed = ops::group_by_expert(ctx, x, indices, experts_start_, n_local_experts_);
  const Tensor y = ops::combine(ctx, experts_(ctx, routed), routed, weights);
  ctx.comm.all_reduce(y);
  ops::add_(ctx, y, shared_experts_(ctx, x));
  return y;
}

void MLP::add_(Context& ctx, const Tensor& h, const RMSNorm& norm) const {
  const auto gate_up = norm.linear(ctx, h, {{w1_.weight()}, {w3_.weight()}});
  w2_.add_(ctx, h, ops::silu_mul(ctx, gate_up[0], gate_up[1]));
}

void MoE::add_(Context& ctx, const Tensor& h, const RMSNorm& norm) const {
  if (ops::fusable(ctx) && ctx.comm.size() == 1) {
    const ExpertsLayer layer{.norm = norm.weight(),
                             .eps = norm.eps(),
                             .gate = gate_.weight().weight(),
                             .bias = gate_.bias(),
                             .route = gate_.route(),
                             .w1 = experts_.w1(),
                             .w2 = experts_.w2(),
                             .w3 = experts_.w3(),
                             .shared_w1 = shared_experts_.w1().weight(),
                             .shared_w2 = shared_experts_.w2().weight(),
                             .shared_w3 = shared_experts_.w3().weight()};
    if (ops::supported(ctx, {&layer.w1, &layer.w2, &layer.w3, &layer.shared_w1, &layer.shared_w2, &layer.shared_w3}) &&
        ctx.backend.experts_add_(h, layer, ctx.options.gemm))
      return;
  }
  ops::add_(ctx, h, (*this)(ctx, norm(ctx, h)));
}

}  // namespace fathom
