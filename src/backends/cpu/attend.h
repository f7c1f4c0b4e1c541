// The plan of an attention call: blocks of queries, runs and spans of keys, and the loop over the spans of one run.
//
// Queries of neighbouring tokens (and of heads with common keys) form a block, so that a loaded span of keys serves all
// of them. Keys are taken in spans, spans are summed into runs of kRunKeys keys, runs into the result, always at the
// same positions and in the same order: a query's result does not depend on its company, nor on the number of threads.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "ops/attention.h"

namespace fathom {

inline constexpr i64 kRunKeys = 4 * kSpanKeys;

// Queries of the tokens [first_token, first_token + tokens) of one sequence and of some heads. Row m of a block is
// token m / heads, head m % heads.
struct QueryBlock {
  i64 sequence, first_token, tokens, first_head, heads;
  i64 keys;  // the most keys that a query of the block sees

  i64 rows() const { return tokens * heads; }
  i64 runs() const { return keys > kRunKeys ? (keys + kRunKeys - 1) / kRunKeys : 1; }
  i64 token_of(i64 row) const { return first_token + row / heads; }
  i64 head_of(i64 row) const { return first_head + row % heads; }
};

// What differs between the forms of attention. Loaders write float32 rows; padding is done already.
struct AttendForm {
  i64 key_width = 0, value_width = 0;
  float scale = 1;
  bool values_are_keys = false;  // a value is the beginning of its key
  std::function<void(float* row, i64 token, i64 head)> load_query;
  // keys [count, padded_step(key_width)], values [count, padded_step(value_width)]
  std::function<void(float* keys, float* values, const QueryBlock& block, i64 first, i64 count)> load_keys;
};

class AttendPlan {
 public:
  AttendPlan(const Sequences& sequences, i64 heads, i64 heads_together, const CpuKernels& kernels,
             const AttendForm& form);

  const std::vector<QueryBlock>& blocks() const { return blocks_; }
  // Runs of all blocks, block after block: (block, run within it).
  i64 runs() const { return static_cast<i64>(runs_.size()); }
  std::pair<std::size_t, i64> run(i64 i) const { return runs_[static_cast<std::size_t>(i)]; }
  i64 tokens() const { return tokens_; }  // tokens that belong to sequences
  i64 work() const { return work_; }      // nanoseconds of the whole call, roughly

  // Floats of the sums of one block, and of the other scratch that attend_run needs.
  i64 sums_floats() const { return kMaxRows * (2 + value_step_); }
  i64 scratch_floats() const;
  SoftmaxSums sums_at(float* space) const;
  SoftmaxSums empty_sums(float* space) const;

  // out = the block's queries over the keys of one run.
  void attend_run(const QueryBlock& block, i64 run, const SoftmaxSums& out, float* scratch) const;

 private:
  static constexpr i64 kMaxRows = 128;

  void add_blocks(i64 sequence, i64 first, i64 end, i64 heads, i64 heads_together);

  const CpuKernels& kernels_;
  const AttendForm& form_;
  const std::int32_t* positions_;
  const std::int32_t* lens_;
  i64 key_step_, value_step_, tokens_ = 0, work_ = 0;
  std::vector<QueryBlock> blocks_;
  std::vector<std::pair<std::size_t, i64>> runs_;
};

}  // namespace fathom
