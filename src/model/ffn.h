// Feed-forward layers: dense and mixture of experts. Reference: model.py, classes MLP, Gate, Expert and MoE.
#pragma once

#include "model/layers.h"
#include "ops/experts.h"

namespace fathom {

// w2(silu(w1(x)) * w3(x))
class MLP {
 public:
  MLP(const Params& p, i64 dim, i64 inter_dim)
      : w1_(p.sub("w1"), dim, inter_dim), w2_(p.sub("w2"), inter_dim, dim), w3_(p.sub("w3"), dim, inter_dim) {}

  // h float32 [T, dim] += MLP(x), x [T, dim]; gives the next norm of h.
  Normed operator()(Context& ctx, const Tensor& h, const Normed& x, const Norm& next) const;

  // Its weights, for operations of the size of a layer.
  SwiGlu weights() const { return {w1_.weight, w2_.weight, w3_.weight}; }

 private:
  ColumnParallelLinear w1_;
  RowParallelLinear w2_;
  ColumnParallelLinear w3_;
};

// Routed experts, those of this rank, and the experts that every token takes: one operation, ops::experts_add_norm.
class MoE {
 public:
  explicit MoE(const Params& p);

  // h float32 [T, dim] += MoE(x), x [T, dim]; gives the next norm of h.
  Normed operator()(Context& ctx, const Tensor& h, const Normed& x, const Norm& next) const {
    return ops::experts_add_norm(ctx, h, x, layer_, next);
  }

 private:
  ExpertsLayer layer_;
};

}  // namespace fathom
