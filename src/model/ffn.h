// Feed-forward layers: dense and mixture of experts. Reference: model.py, classes MLP, Gate, Expert and MoE.
#pragma once

#include "model/layers.h"

namespace fathom {

// w2(silu(w1(x)) * w3(x))
class MLP {
 public:
  MLP(const Params& p, i64 dim, i64 inter_dim)
      : w1_(p.sub("w1"), dim, inter_dim), w2_(p.sub("w2"), inter_dim, dim), w3_(p.sub("w3"), dim, inter_dim) {}

  // x [T, dim] -> float32 [T, dim]
  Tensor operator()(Context& ctx, const Tensor& x) const {
    return w2_(ctx, ops::silu_mul(ctx, w1_(ctx, x), w3_(ctx, x)));
  }
  // h float32 [T, dim] += MLP(norm(h))
  void add_(Context& ctx, const Tensor& h, const RMSNorm& norm) const;

  const ColumnParallelLinear& w1() const { return w1_; }
  const RowParallelLinear& w2() const { return w2_; }
  const ColumnParallelLinear& w3() const { return w3_; }

 private:
  ColumnParallelLinear w1_;
  RowParallelLinear w2_;
  ColumnParallelLinear w3_;
};

// Chooses experts and their weights for each token. Scores are float32 (as in Hugging Face; the reference has bf16).
class Gate {
 public:
  explicit Gate(const Params& p);
  ops::Routing operator()(Context& ctx, const Tensor& x) const;

  const Linear& weight() const { return weight_; }
  const Tensor& bias() const { return bias_; }
  const RouteArgs& route() const { return route_; }

 private:
  Linear weight_;  // [n_routed_experts, dim]
  Tensor bias_;    // float32 [n_routed_experts], or undefined: shifts the choice, not the weights
  RouteArgs route_;
};

// This rank's routed experts as stacked weights; rows arrive sorted by expert.
class Expert {
 public:
  Expert(const Params& p, i64 dim, i64 inter_dim, i64 first, i64 n);
  // routed.rows [R, dim] -> [R, dim]
  Tensor operator()(Context& ctx, const Routed& routed) const;

  const Weight& w1() const { return w1_; }
  const Weight& w2() const { return w2_; }
  const Weight& w3() const { return w3_; }

 private:
  Weight w1_, w2_, w3_;  // [n_local_experts, inter_dim, dim], [.., dim, inter_dim], [.., inter_dim, dim]
};

class MoE {
 public:
  explicit MoE(const Params& p);
  // x [T, dim] -> float32 [T, dim]
  Tensor operator()(Context& ctx, const Tensor& x) const;
  // h float32 [T, dim] += MoE(norm(h)); in one go where the backend can and no other rank has experts.
  void add_(Context& ctx, const Tensor& h, const RMSNorm& norm) const;

 private:
  i64 n_local_experts_, experts_start_;
  Gate gate_;
  Expert experts_;
  MLP shared_experts_;
};

}  // namespace fathom
