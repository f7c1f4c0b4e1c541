// PassBuffers: a pass's inputs at their fixed places on the device.
#pragma once

#include "engine/options.h"
#include "engine/plan.h"
#include "model/args.h"

namespace fathom {

struct PassBuffers {
  Tensor ids, positions, slots;                          // int32 [max_tokens]
  Tensor seq_starts, context_lens, context_starts;       // int32 [max_sequences + 1]
  Tensor block_tables;                                   // int32 [max_sequences, blocks of the longest sequence]
  Tensor logit_rows, top_k;                              // int32 [max_sequences]
  Tensor temperature, top_p, min_p, repetition_penalty;  // float32 [max_sequences]
  Tensor seed, step;                                     // int64 [max_sequences]
  Tensor seen;                                           // u8 [max_sequences, ceil(vocab_size / 8)]
  Tensor log;                                            // int32 [(1 + max_steps) * max_sequences]

  static PassBuffers make(Arena& arena, const ModelArgs& args, const RunnerOptions& options);

  // The largest batch, for measuring.
  Batch whole_batch() const;
  // The first `count` rows' parameters.
  SampleArgs sampling(i64 count) const;
  // The plan's inputs, uploaded.
  Batch upload(Backend& backend, const StepPlan& plan) const;
  // What the plan's tokens are drawn with, uploaded.
  SampleArgs upload_sampling(Backend& backend, const StepPlan& plan) const;
};

}  // namespace fathom
