// Multi-head latent attention. Reference: model.py, class MLA. The cache holds the normalised latent and the rotated
// shared key only (kv_lora_rank + qk_rope_head_dim numbers a token), in both forms of attention.
#pragma once

#include <optional>

#include "model/layers.h"
#include "ops/attention.h"

namespace fathom {

class MLA {
 public:
  explicit MLA(const Params& p);

  // h float32 [T, dim] += attention of x [T, dim]; writes this pass's tokens into the cache. freqs:
  // precompute_freqs_cis. Gives the next norm of h.
  Normed operator()(Context& ctx, const Tensor& h, const Normed& x, const Tensor& freqs,
                    std::span<const Sequences> runs, const CacheLayer& cache, const Norm& next) const;

 private:
  i64 n_local_heads_, q_lora_rank_, kv_lora_rank_, qk_nope_head_dim_, qk_rope_head_dim_, v_head_dim_;
  float softmax_scale_;
  std::optional<ColumnParallelLinear> wq_;  // without q_lora
  std::optional<Linear> wq_a_;              // with q_lora: wq_b(q_norm(wq_a(x)))
  std::optional<RMSNorm> q_norm_;
  std::optional<ColumnParallelLinear> wq_b_;
  Linear wkv_a_;
  RMSNorm kv_norm_;
  std::optional<ColumnParallelLinear> wkv_b_;  // naive form
  Tensor wk_b_;  // absorbed form: [n_local_heads, kv_lora_rank, qk_nope_head_dim], wkv_b's key part transposed
  Tensor wv_b_;  // [n_local_heads, v_head_dim, kv_lora_rank]
  RowParallelLinear wo_;
};

}  // namespace fathom
