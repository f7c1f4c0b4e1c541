// Drawing tokens, and the way from one decode step to the next. See rows.h for the conventions.
#pragma once

#include "base/sampling.h"
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
  Tensor rows;  // u8 [N, sizeof(RowSampling)]: an array of RowSampling
  Tensor seen;  // [N, ceil(vocab / 8)] u8 bit set of tokens already in the sequence; undefined: none has a penalty

  void each(auto&& f) { f(rows), f(seen); }
};

namespace op {

// ids int32 [N] drawn from logits f32 [N, V].
struct Sample {
  Tensor ids, logits;
  SampleArgs args;
  static constexpr const char* kName = "sample";
  void each(auto&& f) { f(ids), f(logits), args.each(f); }
};

// ids[i] = -1 where row i of logits f32 [N, V] holds NaN or infinity; other ids stay.
struct MarkNotFinite {
  Tensor ids, logits;
  static constexpr const char* kName = "mark_not_finite";
  void each(auto&& f) { f(ids), f(logits); }
};

// Optional: see ops::advance.
struct Advance {
  const Batch& batch;
  Tensor drawn;
  SampleArgs sampling;
  Tensor log;
  i64 block_size = 0;
  static constexpr const char* kName = "advance";
  void each(auto&& f) const { f(batch.ids), f(drawn); }
};

}  // namespace op

namespace ops {

// Drawn ids int32 [N]; -1 where a row of logits is not finite.
Tensor sample(Context& ctx, const Tensor& logits, const SampleArgs& args);

// Makes the batch of a decode pass (token i is the only one of sequence i) that of the next: ids = drawn, positions and
// context lengths + 1, slots from the block tables (sequences whose slot was -1 keep it), their steps + 1. Row log[0,
// 0] of log int32 [1 + n, N] receives the drawn ids; log[0, 0] counts the rows and starts at 0. False where the device
// cannot.
bool advance(Context& ctx, const Batch& batch, const Tensor& drawn, const SampleArgs& sampling, const Tensor& log,
             i64 block_size);

}  // namespace ops
}  // namespace fathom
