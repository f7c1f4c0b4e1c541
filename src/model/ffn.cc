#include "model/ffn.h"

namespace fathom {
namespace {

Gate make_gate(const Params& p) {
  const ModelArgs& args = p.args();
  return {.weight = p.plain_matrix(args.n_routed_experts, args.dim, Split::none),
          .bias = args.gate_bias ? p.vector("bias", args.n_routed_experts) : Tensor{},
          .route = {.top_k = args.n_activated_experts,
                    .n_groups = args.n_expert_groups,
                    .top_k_groups = args.n_limited_groups,
                    .sigmoid = args.score_func == "sigmoid",
                    .normalize = args.norm_topk_prob,
                    .route_scale = static_cast<float>(args.route_scale)}};
}

// Experts first .. first + n as stacks.
SwiGlu make_experts(const Params& p, i64 first, i64 n) {
  const i64 dim = p.args().dim, inter_dim = p.args().moe_inter_dim;
  return {.w1 = p.stack("w1", first, n, inter_dim, dim),
          .w2 = p.stack("w2", first, n, dim, inter_dim),
          .w3 = p.stack("w3", first, n, inter_dim, dim)};
}

}  // namespace

Normed MLP::operator()(Context& ctx, const Tensor& h, const Normed& x, const Norm& next) const {
  const auto gate_up = ops::linear(ctx, x, {{w1_.weight}, {w3_.weight}});
  return w2_(ctx, h, ops::silu_mul(ctx, gate_up[0], gate_up[1]), next);
}

MoE::MoE(const Params& p) {
  const ModelArgs& args = p.args();
  CHECK(args.n_routed_experts % p.world_size() == 0,
        "Number of experts must be divisible by world size (world_size={}); it is {}", p.world_size(),
        args.n_routed_experts);
  const i64 n_local_experts = args.n_routed_experts / p.world_size(), experts_start = n_local_experts * p.rank();
  layer_.gate = make_gate(p.sub("gate"));
  layer_.experts = make_experts(p.sub("experts"), experts_start, n_local_experts);
  layer_.first = experts_start;
  layer_.shared = MLP(p.sub("shared_experts"), args.dim, args.n_shared_experts * args.moe_inter_dim).weights();
}

}  // namespace fathom
