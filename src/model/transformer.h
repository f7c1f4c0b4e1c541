// The model. Reference: model.py, classes Block and Transformer.
#pragma once

#include <functional>
#include <variant>
#include <vector>

#include "model/ffn.h"
#include "model/kv_cache.h"
#include "model/mla.h"
#include "ops/sampling.h"

namespace fathom {

// h += attn(attn_norm(h)); h += ffn(ffn_norm(h)). h is the residual stream, float32 [T, dim].
class Block {
 public:
  Block(const Params& p, i64 layer_id);
  // x: attn_norm of h. Gives the next norm of h.
  Normed operator()(Context& ctx, const Tensor& h, const Normed& x, const Tensor& freqs,
                    std::span<const Sequences> runs, const CacheLayer& cache, const Norm& next) const;
  const RMSNorm& attn_norm() const { return attn_norm_; }

 private:
  MLA attn_;
  std::variant<MLP, MoE> ffn_;
  RMSNorm attn_norm_, ffn_norm_;
};

// Sees the residual stream float32 [T, dim] after each block.
using HiddenHook = std::function<void(i64 layer, const Tensor& h)>;

class Transformer {
 public:
  explicit Transformer(const Params& p);

  // The norm of the residual stream after the last block: float32 [T, dim]. Writes the pass's tokens into the cache.
  // Throws Error when a context is longer than max_seq_len; positions on the device must be below the contexts.
  Normed forward(Context& ctx, const Batch& batch, const LatentCache& cache, const HiddenHook& hidden = {}) const;
  // Logits float32 [N, vocab_size] of the tokens batch.logit_rows.
  Tensor operator()(Context& ctx, const Batch& batch, const LatentCache& cache, const HiddenHook& hidden = {}) const;

  const Tensor& freqs() const { return freqs_; }
  const ParallelEmbedding& embed() const { return embed_; }

 private:
  ParallelEmbedding embed_;
  std::vector<Block> layers_;
  RMSNorm norm_;
  ParallelHead head_;
  Tensor freqs_;  // float32 [max_seq_len, qk_rope_head_dim / 2, 2]
};

}  // namespace fathom
