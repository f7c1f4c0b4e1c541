// Drawing tokens, and the way from one decode step to the next. See rows.h for the conventions.
#pragma once

#include "ops/attention.h"

namespace fathom {

// The input of one pass: T tokens. All tensors are int32 on the backend's device.
struct Batch {
  Tensor ids;                   // [T] token ids
  Tensor logit_rows;            // [N] tokens whose logits are wanted
  std::vector<Sequences> runs;  // the sequences, one run after another

  i64 tokens() const { return ids.dim(0); }
};

// Sampling of one token for each of N rows; row i's choice depends on its own parameters, seed and step alone.
struct SampleArgs {
  Tensor temperature;         // [N] float32; 0 or less takes the largest logit (the first of equals)
  Tensor top_k;               // [N] int32; 0: no limit
  Tensor top_p;               // [N] float32; 1: no limit
  Tensor min_p;               // [N] float32; 0: no limit
  Tensor repetition_penalty;  // [N] float32; 1: none. Logits of seen tokens are divided (positive) or multiplied by it
  Tensor seed;                // [N] int64
  Tensor step;                // [N] int64: how many tokens the sequence has drawn before; the random stream's counter
  Tensor seen;  // [N, ceil(vocab / 8)] u8 bit set of tokens already in the sequence; undefined: none has a penalty

  template <typename F>
  void each(F&& f) {
    f(temperature), f(top_k), f(top_p), f(min_p), f(repetition_penalty), f(seed), f(step), f(seen);
  }
};

namespace op {

// ids int32 [N] drawn from logits f32 [N, V].
struct Sample {
  Tensor ids, logits;
  SampleArgs args;
  static constexpr const char* kName = "sample";
  template <typename F>
  void each(F&& f) {
    f(ids), f(logits), args.each(f);
  }
};

// ids[i] = -1 where row i of logits f32 [N, V] holds NaN or infinity; other ids stay.
struct MarkNotFinite {
  Tensor ids, logits;
  static constexpr const char* kName = "mark_not_finite";
  template <typename F>
  void each(F&& f) {
    f(ids), f(logits);
  }
};

// Optional: see ops::advance.
struct Advance {
  const Batch& batch;
  Tensor drawn, step, log;
  i64 block_size = 0;
  static constexpr const char* kName = "advance";
  template <typename F>
  void each(F&& f) const {
    f(batch.ids), f(drawn);
  }
};

}  // namespace op

namespace ops {

// Drawn ids int32 [N]; -1 where a row of logits is not finite.
Tensor sample(Context& ctx, const Tensor& logits, const SampleArgs& args);

// Makes the batch of a decode pass (token i is the only one of sequence i) that of the next: ids = drawn, positions and
// context lengths + 1, slots from the block tables (sequences whose slot was -1 keep it), step + 1. Row log[0, 0] of
// log int32 [1 + n, N] receives the drawn ids; log[0, 0] counts the rows and starts at 0. False where the device
// cannot.
bool advance(Context& ctx, const Batch& batch, const Tensor& drawn, const Tensor& step, const Tensor& log,
             i64 block_size);

}  // namespace ops
}  // namespace fathom
