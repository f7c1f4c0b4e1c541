// The small modules: linear layers and their parallel forms, embedding, norm. Reference: model.py, classes of the same
// names. Modules are immutable once built and are called with (ctx, x); they take their weights in the constructor.
#pragma once

#include "model/params.h"
#include "ops/fused.h"

namespace fathom {

// y = x w^T. Every rank holds the whole matrix.
class Linear {
 public:
  Linear(const Params& p, i64 in, i64 out) : Linear(p.matrix(out, in, Split::none, p.args().format())) {}
  explicit Linear(const Weight& weight) : weight_(weight) {}

  // x [T, in] -> [T, out] in the activation type, or in `dtype`.
  Tensor operator()(Context& ctx, const Tensor& x, std::optional<DType> dtype = {}) const {
    return ops::linear(ctx, x, weight_, dtype);
  }
  const Weight& weight() const { return weight_; }

 private:
  Weight weight_;
};

// Output features are divided among the ranks: x [T, in] -> [T, out / world_size].
class ColumnParallelLinear {
 public:
  ColumnParallelLinear(const Params& p, i64 in, i64 out);
  Tensor operator()(Context& ctx, const Tensor& x) const { return ops::linear(ctx, x, weight_); }
  const Weight& weight() const { return weight_; }

 private:
  Weight weight_;
};

// Input features are divided: x [T, in / world_size] -> [T, out], summed over the ranks. The result is float32, so that
// neither the sum nor the residual stream it joins is rounded to bf16 on the way.
class RowParallelLinear {
 public:
  RowParallelLinear(const Params& p, i64 in, i64 out);
  Tensor operator()(Context& ctx, const Tensor& x) const;
  // h float32 [T, out] += the same.
  void add_(Context& ctx, const Tensor& h, const Tensor& x) const;
  const Weight& weight() const { return weight_; }

 private:
  Weight weight_;
};

// Rows of the vocabulary are divided among the ranks.
class ParallelEmbedding {
 public:
  ParallelEmbedding(const Params& p, i64 vocab_size, i64 dim);
  // ids int32 [T] -> float32 [T, dim]
  Tensor operator()(Context& ctx, const Tensor& ids) const;

 private:
  Tensor weight_;  // [vocab_size / world_size, dim]
  i64 vocab_start_;
};

// The output projection: x [N, dim] -> logits float32 [N, vocab_size] on every rank.
class ParallelHead {
 public:
  ParallelHead(const Params& p, i64 dim, i64 vocab_size);
  Tensor operator()(Context& ctx, const Tensor& x) const;
  const Weight& weight() const { return weight_; }

 private:
  Weight weight_;  // [vocab_size / world_size, dim]
};

class RMSNorm {
 public:
  RMSNorm(const Params& p, i64 dim)
      : weight_(p.vector("weight", dim)), eps_(static_cast<float>(p.args().rms_norm_eps)) {}

  // x [T, dim] -> [T, dim] in the activation type
  Tensor operator()(Context& ctx, const Tensor& x) const { return ops::rms_norm(ctx, x, weight_, eps_); }
  // The same into y, rows strided.
  void operator()(Context& ctx, const Tensor& y, const Tensor& x) const { ctx.backend.rms_norm(y, x, weight_, eps_); }
  // Products of the normalised x.
  std::vector<Tensor> linear(Context& ctx, const Tensor& x, std::initializer_list<ops::NormedProduct> products) const {
    return ops::norm_linear(ctx, x, weight_, eps_, std::span(products.begin(), products.size()));
  }
  const Tensor& weight() const { return weight_; }
  float eps() const { return eps_; }

 private:
  Tensor weight_;  // float32 [dim]
  float eps_;
};

}  // namespace fathom
