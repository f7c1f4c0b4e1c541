// The operations a model is written in: each checks shapes, takes its output from the context's arena and calls one
// method of the backend. Outputs have the activation type ctx.options.compute unless another is asked for. See
// backend.h for what each computes.
#pragma once

#include <optional>

#include "ops/context.h"

namespace fathom::ops {

// Rows of the embedding table shard that starts at `first`: [T, d] in float32 (the residual stream).
Tensor embedding(Context& ctx, const Tensor& table, const Tensor& ids, i64 first);
Tensor gather_rows(Context& ctx, const Tensor& x, const Tensor& rows);
void copy(Context& ctx, const Tensor& y, const Tensor& x);
void add_(Context& ctx, const Tensor& x, const Tensor& y);
Tensor rms_norm(Context& ctx, const Tensor& x, const Tensor& weight, float eps);
Tensor silu_mul(Context& ctx, const Tensor& a, const Tensor& b);

Tensor linear(Context& ctx, const Tensor& x, const Weight& w, std::optional<DType> out = {});
Tensor grouped_linear(Context& ctx, const Tensor& x, const Weight& w, const Tensor& offsets,
                      std::optional<DType> out = {});
Tensor head_matmul(Context& ctx, const Tensor& x, const Tensor& w);

void rope_(Context& ctx, const Tensor& x, const Tensor& freqs, const Tensor& positions);
void store_latent(Context& ctx, const CacheLayer& cache, const Tensor& kv, const Tensor& k_pe, const Tensor& slots);
Tensor attend_latent(Context& ctx, const Tensor& q_c, const Tensor& q_pe, const CacheLayer& cache, const Batch& batch,
                     float scale);
Tensor gather_latent(Context& ctx, const CacheLayer& cache, const Batch& batch);
Tensor attend_expanded(Context& ctx, const Tensor& q, const Tensor& kv, const Tensor& k_pe, const Batch& batch,
                       float scale);

struct Routing {
  Tensor weights;  // f32 [T, top_k]
  Tensor indices;  // int32 [T, top_k]
};
Routing route(Context& ctx, const Tensor& logits, const Tensor& bias, const RouteArgs& args);
Routed group_by_expert(Context& ctx, const Tensor& x, const Tensor& indices, i64 first, i64 n_local);
// Weighted sum of the experts' rows in float32: [T, d].
Tensor combine(Context& ctx, const Tensor& rows, const Routed& routed, const Tensor& weights);

// Drawn ids int32 [N]; -1 where a row of logits is not finite.
Tensor sample(Context& ctx, const Tensor& logits, const SampleArgs& args);

}  // namespace fathom::ops
