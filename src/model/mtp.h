// The multi-token-prediction module: from the main model's state at token i and the embedding of token i + 1 it
// predicts token i + 2. Source: DeepSeek-V3 report (arXiv 2412.19437), section 2.2; names as in the published weights.
#pragma once

#include "model/transformer.h"

namespace fathom {

class MTP {
 public:
  // `layer_id`: n_layers for the first module.
  MTP(const Params& p, i64 layer_id);

  // h [T, dim]: the main model's state after its final norm; batch.ids: the tokens one further.
  // Logits float32 [N, vocab_size] of batch.logit_rows. Has its own layer of the cache.
  Tensor operator()(Context& ctx, const Tensor& h, const Tensor& freqs, const Batch& batch,
                    const CacheLayer& cache) const;

 private:
  ParallelEmbedding embed_;
  RMSNorm enorm_, hnorm_;
  Linear eh_proj_;  // [dim, 2 dim]
  Block block_;
  RMSNorm norm_;
  ParallelHead head_;
};

}  // namespace fathom
