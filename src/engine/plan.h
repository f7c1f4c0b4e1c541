// StepPlan: plain vectors that describe one pass, and StepResult, what comes back. Can be sent to other ranks as bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/request.h"

namespace fathom {

// T tokens of S sequences, N of which want their next token drawn. Sequences with fewer new tokens come first, so that
// those that decode lie together before the long chunks of prompts.
struct StepPlan {
  std::vector<TokenId> ids;                   // [T]
  std::vector<std::int32_t> positions;        // [T] from 0
  std::vector<std::int32_t> slots;            // [T] cache row: block * block_size + offset
  std::vector<std::int32_t> seq_starts{0};    // [S + 1] tokens of each sequence
  std::vector<std::int32_t> context_lens;     // [S] cached tokens of each sequence, this pass's included
  std::vector<std::int32_t> block_starts{0};  // [S + 1] into blocks
  std::vector<std::int32_t> blocks;           // cache blocks of the sequences, one after another
  std::vector<std::int32_t> logit_rows;       // [N] tokens whose logits are wanted

  std::vector<RowSampling> sampling;         // [N]
  std::vector<std::int32_t> n_logprobs;      // [N]
  std::vector<std::int32_t> seen_starts{0};  // [N + 1] into seen
  std::vector<TokenId> seen;                 // tokens already in the sequences that have a repetition penalty

  // Passes to run one after another, each fed with what the one before has drawn. More than one only for plans that
  // decode; `blocks` then has room for all of them.
  i64 steps = 1;

  // Appends tokens of a sequence, the first at position `start`; `table`: all its cache blocks, in order.
  void add_sequence(std::span<const TokenId> tokens, i64 start, std::span<const std::int32_t> table, i64 block_size);
  // Wants the token after the last one appended. `tokens`: those of its sequence so far, if it has a repetition
  // penalty.
  void add_row(const RowSampling& row, std::int32_t logprobs = -1, std::span<const TokenId> tokens = {});

  i64 tokens() const { return static_cast<i64>(ids.size()); }
  i64 sequences() const { return static_cast<i64>(context_lens.size()); }
  i64 rows() const { return static_cast<i64>(logit_rows.size()); }
  // One token of each sequence, and the next one drawn for each.
  bool decodes() const { return tokens() > 0 && tokens() == sequences() && rows() == tokens(); }
  bool operator==(const StepPlan&) const = default;
};

// The plan as bytes and back; throws Error when the bytes are not a plan.
std::vector<std::byte> to_bytes(const StepPlan& plan);
StepPlan plan_from_bytes(std::span<const std::byte> bytes);

// Tokens `ids` of one sequence from position `start` on, in cache blocks 0, 1, 2, ...; with `logits`, the last token's
// are wanted (drawn greedily when the plan is run). For tools that need no scheduler.
StepPlan single_sequence_plan(std::span<const TokenId> ids, i64 start, i64 block_size, bool logits);

// What one row of logits gave.
struct Drawn {
  TokenId token = -1;
  bool finite = true;  // false: the logits held NaN or infinity, `token` means nothing
  float logprob = 0;
  std::vector<TokenLogprob> top_logprobs = {};
};

struct StepResult {
  std::vector<Drawn> rows;  // [steps * N], pass after pass
};

// Whoever can carry out a plan: the Runner, or a stand-in in tests.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  virtual StepResult run(const StepPlan& plan) = 0;
};

}  // namespace fathom
