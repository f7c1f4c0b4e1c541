// The small modules: linear layers and their parallel forms, embedding, norm. Reference: model.py, classes of the same
// names. Modules are immutable once built and are called with (ctx, x); they take their weights in the constructor.
#pragma once

#include "model/params.h"
#include "ops/collectives.h"
#include "ops/products.h"

namespace fathom {

// y = x w^T. Every rank holds the whole matrix.
struct Linear {
  Linear(const Params& p, i64 in, i64 out) : weight(p.matrix(out, in, Split::none, p.args().format())) {}
  explicit Linear(const Weight& w) : weight(w) {}

  // x [T, in] -> [T, out] in the activation type, or in `dtype`.
  Tensor operator()(Context& ctx, const Normed& x, std::optional<DType> dtype = {}) const {
    return ops::linear(ctx, x, weight, dtype);
  }

  Weight weight;
};

// Output features are divided among the ranks: x [T, in] -> [T, out / world_size].
struct ColumnParallelLinear {
  ColumnParallelLinear(const Params& p, i64 in, i64 out);
  Tensor operator()(Context& ctx, const Normed& x) const { return ops::linear(ctx, x, weight); }

  Weight weight;
};

// Input features are divided: the ranks' products of x [T, in / world_size] are summed up. They join the residual
// stream, which is float32, so that neither is rounded to bf16 on the way.
struct RowParallelLinear {
  RowParallelLinear(const Params& p, i64 in, i64 out);
  // h float32 [T, out] += the sum; gives the next norm of h.
  Normed operator()(Context& ctx, const Tensor& h, const Tensor& x, const Norm& next) const {
    return ops::linear_add_norm(ctx, h, x, weight, next);
  }

  Weight weight;
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
  Tensor operator()(Context& ctx, const Normed& x) const {
    return ops::gather_columns(ctx, ops::linear(ctx, x, weight_, DType::f32));
  }

 private:
  Weight weight_;  // [vocab_size / world_size, dim]
};

// The epsilon of the norms of latents, whatever rms_norm_eps says: see "Numbers" in ARCHITECTURE.md.
constexpr double kLatentNormEps = 1e-6;

// A norm that whoever takes its result may apply.
struct RMSNorm : Norm {
  RMSNorm(const Params& p, i64 dim) : RMSNorm(p, dim, p.args().rms_norm_eps) {}
  RMSNorm(const Params& p, i64 dim, double eps) : Norm{p.vector("weight", dim), static_cast<float>(eps)} {}
  // x [T, dim]
  Normed operator()(const Tensor& x) const { return {x, *this}; }
};

}  // namespace fathom
