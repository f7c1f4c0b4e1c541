// Runner: one rank's model with its weights, cache and scratch. Carries out step plans: plan -> device batch -> pass ->
// drawn tokens on the host.
#pragma once

#include <vector>

#include "engine/plan.h"
#include "model/transformer.h"

namespace fathom {

// What the runner's buffers, cache and scratch are made for.
struct RunnerOptions {
  i64 max_tokens = 512;    // of a pass
  i64 max_sequences = 8;   // of a pass
  i64 max_seq_len = 0;     // tokens of a sequence; 0: what the model arguments say
  i64 blocks = 0;          // of the cache
  i64 block_size = 16;     // tokens
  ComputeOptions compute;  // fixed for the runner's life
};

class Runner final : public StepRunner {
 public:
  // Loads the weights. Backend and communicator outlive the runner; the checkpoint is not needed afterwards.
  Runner(Backend& backend, Communicator& comm, const Checkpoint& checkpoint, const ModelArgs& args,
         const RunnerOptions& options, const WeightStore::Progress& progress = {});

  StepResult run(const StepPlan& plan) override;

  // A pass without drawing, for tools that look at the numbers themselves.
  struct Outputs {
    std::vector<float> logits;               // [N, vocab_size]
    std::vector<std::vector<float>> hidden;  // of each block [T, dim], when asked for
  };
  Outputs forward(const StepPlan& plan, bool hidden);

  const ModelArgs& args() const { return args_; }
  const RunnerOptions& options() const { return options_; }
  i64 cache_bytes() const { return cache_.bytes(); }
  i64 arena_bytes() const { return arena_bytes_; }

 private:
  // A pass's inputs at their fixed places on the device.
  struct Buffers {
    Tensor ids, positions, slots;                          // int32 [max_tokens]
    Tensor seq_starts, context_lens, context_starts;       // int32 [max_sequences + 1]
    Tensor block_tables;                                   // int32 [max_sequences, blocks of the longest sequence]
    Tensor logit_rows, top_k;                              // int32 [max_sequences]
    Tensor temperature, top_p, min_p, repetition_penalty;  // float32 [max_sequences]
    Tensor seed, step;                                     // int64 [max_sequences]
    Tensor seen;                                           // u8 [max_sequences, ceil(vocab_size / 8)]
  };
  Buffers make_buffers(Arena& arena) const;
  std::size_t measure_buffers() const;
  std::size_t measure_pass();
  void check(const StepPlan& plan) const;
  Batch upload_batch(const StepPlan& plan);
  SampleArgs upload_sampling(const StepPlan& plan);
  // The first n entries of a buffer, filled from the host.
  template <typename T>
  Tensor fill(const Tensor& buffer, const std::vector<T>& values);

  Backend& backend_;
  Communicator& comm_;
  ModelArgs args_;
  RunnerOptions options_;
  WeightStore store_;
  Transformer model_;
  LatentCache cache_;
  Arena buffer_arena_;
  Buffers buffers_;
  i64 arena_bytes_ = 0;
  Arena arena_;
};

}  // namespace fathom
