// PassBuffers: a pass's inputs at their fixed places on the device.
#pragma once

#include <vector>

#include "engine/options.h"
#include "engine/plan.h"
#include "model/args.h"

namespace fathom {

class PassBuffers {
 public:
  // Takes its memory from the arena; a measuring one gives addresses that serve shapes alone.
  PassBuffers(Arena& arena, const ModelArgs& args, const RunnerOptions& options);

  // Bytes that it takes from an arena.
  static i64 bytes(const ModelArgs& args, const RunnerOptions& options);

  struct Inputs {
    Batch batch;
    SampleArgs sampling;
  };
  // The largest batch, for measuring.
  Inputs whole() const;
  // The plan's inputs, uploaded. What has an entry a sequence goes in one piece, and the log is emptied.
  Inputs upload(Backend& backend, const StepPlan& plan);
  // The log of a decode batch of `count` sequences: int32 [1 + max_steps, count], see ops::advance.
  Tensor log(i64 count) const;

 private:
  template <typename T>
  Tensor fill(const Tensor& buffer, const std::vector<T>& values);

  i64 max_steps_;
  Tensor ids_, positions_, slots_;                           // int32 [max_tokens]
  Tensor block_tables_;                                      // int32 [max_sequences, blocks of the longest sequence]
  Tensor seen_;                                              // u8 [max_sequences, ceil(vocab_size / 8)]
  Tensor log_;                                               // int32 [(1 + max_steps) * max_sequences]
  Tensor seq_starts_, context_lens_, context_starts_;        // int32 [max_sequences + 1]
  Tensor logit_rows_, top_k_;                                // int32 [max_sequences]
  Tensor temperature_, top_p_, min_p_, repetition_penalty_;  // float32 [max_sequences]
  Tensor seed_, step_;                                       // int64 [max_sequences]
  // From seq_starts_ to step_ they lie one after another: all of them, and their bytes on the host.
  Tensor together_;  // u8
  std::vector<std::byte> image_;
};

}  // namespace fathom
