// PassBuffers: a pass's inputs at their fixed places on the device.
#pragma once

#include <span>
#include <vector>

#include "engine/limits.h"
#include "engine/plan.h"
#include "model/args.h"
#include "ops/backend.h"

namespace fathom {

class PassBuffers {
 public:
  // Takes its memory from the arena; a measuring one gives addresses that serve shapes alone.
  PassBuffers(Arena& arena, const ModelArgs& args, const Limits& limits);

  // Bytes that it takes from an arena.
  static i64 bytes(const ModelArgs& args, const Limits& limits);

  struct Inputs {
    Batch batch;
    SampleArgs sampling;
  };
  // A batch of `tokens` tokens for measuring: its runs have these shapes, and need not fit together. The most rows of
  // logits are wanted.
  Inputs largest(i64 tokens, std::span<const ops::RunShape> runs) const;
  // The plan's inputs, uploaded. What has an entry a sequence goes in one piece, and the log is emptied. Sequences with
  // `expand_from` new tokens are expanded: see ops::attention_runs.
  Inputs upload(Backend& backend, const StepPlan& plan, i64 expand_from);
  // The log of a decode batch of `count` sequences: int32 [1 + max_steps, count], see ops::advance.
  Tensor log(i64 count) const;

 private:
  template <typename T>
  Tensor fill(const Tensor& buffer, const std::vector<T>& values);

  i64 max_steps_;
  Tensor ids_, positions_, slots_;      // int32 [max_tokens]
  Tensor block_tables_;                 // int32 [max_sequences, blocks of the longest sequence]
  Tensor seen_;                         // u8 [max_rows, ceil(vocab_size / 8)]
  Tensor log_;                          // int32 [(1 + max_steps) * max_sequences]
  Tensor seq_starts_, context_starts_;  // int32 [2 max_sequences]: those of each run begin with 0
  Tensor context_lens_;                 // int32 [max_sequences]
  Tensor logit_rows_;                   // int32 [max_rows]
  Tensor sampling_;                     // RowSampling [max_rows]
  // From seq_starts_ to sampling_ they lie one after another: all of them, and their bytes on the host.
  Tensor together_;  // u8
  std::vector<std::byte> image_;
};

}  // namespace fathom
