// Fused operations: one kernel where a backend has it, else the plain operations that it means.
#pragma once

#include <span>
#include <vector>

#include "ops/ops.h"

namespace fathom::ops {

// Whether fused forms may be tried: they serve bf16 activations and round as those do.
bool fusable(const Context& ctx);

// A product that shares its normalised input with others.
struct NormedProduct {
  const Weight& w;
  std::optional<DType> out = {};  // the activation type without it
};
// linear(rms_norm(x, gain, eps), w) for each of the products.
std::vector<Tensor> norm_linear(Context& ctx, const Tensor& x, const Tensor& gain, float eps,
                                std::span<const NormedProduct> products);

// h float32 += linear(x, w)
void linear_add_(Context& ctx, const Tensor& h, const Tensor& x, const Weight& w);

// silu(x w1^T) * (x w3^T) for rows x of routed experts: [R, inter].
Tensor grouped_swiglu(Context& ctx, const Tensor& x, const Weight& w1, const Weight& w3, const Tensor& offsets);

// Rotates q and the new keys, stores the new rows of the cache, and attends in the latent space: [T, H, v]. q may be
// changed.
Tensor latent_attention(Context& ctx, const Tensor& q, const Tensor& kv_pe, const LatentAttention& args,
                        const CacheLayer& cache, const Batch& batch);

// Makes the batch of a decode pass (token i is the only one of sequence i) that of the next: ids = drawn, positions and
// context lengths + 1, slots from the block tables (sequences whose slot was -1 keep it), their steps + 1. Row log[0,
// 0] of log int32 [1 + n, N] receives the drawn ids; log[0, 0] counts the rows and starts at 0. False where the device
// cannot.
bool advance(Context& ctx, const Batch& batch, const Tensor& drawn, const SampleArgs& sampling, const Tensor& log,
             i64 block_size);

}  // namespace fathom::ops
