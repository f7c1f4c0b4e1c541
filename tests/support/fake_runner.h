// FakeRunner: a stand-in for a model whose next token depends on every token before it, read through the cache. So a
// lost, overwritten or wrongly shared cache block changes the text.
#pragma once

#include <algorithm>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "engine/plan.h"

namespace fathom {

class FakeRunner final : public StepRunner {
 public:
  FakeRunner(i64 blocks, i64 block_size, TokenId vocab)
      : block_size_(block_size), vocab_(vocab), cache_(static_cast<std::size_t>(blocks * block_size), 0) {}

  // The state after `before` and one more token; 0 is an empty cache row.
  static std::uint64_t mix(std::uint64_t before, TokenId token) {
    std::uint64_t hash = (before + 0x9e3779b97f4a7c15u + static_cast<std::uint32_t>(token)) * 0xbf58476d1ce4e5b9u;
    return (hash ^ hash >> 29) | 1u;
  }

  // Depends on the random stream too.
  static TokenId draw(std::uint64_t state, const RowSampling& row, TokenId vocab) {
    const std::uint64_t drawn = mix(state, static_cast<TokenId>(row.seed + 3 * row.step)) >> 17;
    return static_cast<TokenId>(drawn % static_cast<std::uint64_t>(vocab));
  }

  // What a prompt gives when nothing else runs.
  std::vector<TokenId> alone(const std::vector<TokenId>& prompt, i64 count) const {
    std::uint64_t state = 0;
    for (const TokenId id : prompt) state = mix(state, id);
    std::vector<TokenId> drawn;
    for (i64 step = 0; step < count; ++step) {
      drawn.push_back(draw(state, {{}, step}, vocab_));
      state = mix(state, drawn.back());
    }
    return drawn;
  }

  StepResult run(const StepPlan& plan) override {
    CHECK(plan.steps == 1 || plan.decodes(), "{} passes of a plan that does not decode", plan.steps);
    most_steps = std::max(most_steps, plan.steps);
    StepPlan one = plan;
    StepResult all;
    for (i64 step = 0; step < plan.steps; ++step) {
      one.steps = plan.steps - step;  // what `blocks` has room for
      const StepResult result = run_once(one);
      all.rows.insert(all.rows.end(), result.rows.begin(), result.rows.end());
      if (plan.decodes()) advance(one, result);
    }
    return all;
  }

  i64 passes = 0, tokens = 0, most_tokens = 0, most_sequences = 0, most_steps = 0;
  std::function<void()> on_next;  // called in the next pass, which it may end by an exception
  TokenId poison = -1;            // this token's state is not finite, nor is any after it

 private:
  StepResult run_once(const StepPlan& plan) {
    ++passes;
    tokens += plan.tokens();
    most_tokens = std::max(most_tokens, plan.tokens());
    most_sequences = std::max(most_sequences, plan.sequences());
    if (on_next) std::exchange(on_next, {})();
    check_slots(plan);
    for (std::size_t s = 2; s < plan.seq_starts.size(); ++s)
      CHECK(plan.seq_starts[s] - plan.seq_starts[s - 1] >= plan.seq_starts[s - 1] - plan.seq_starts[s - 2],
            "sequence {} has fewer new tokens than the one before it", s - 1);
    std::vector<std::uint64_t> states;
    for (i64 s = 0; s < plan.sequences(); ++s) run_sequence(plan, static_cast<std::size_t>(s), states);
    StepResult result;
    for (std::size_t n = 0; n < plan.logit_rows.size(); ++n) {
      const std::int32_t row = plan.logit_rows[n];
      Drawn drawn{.token = draw(states[static_cast<std::size_t>(row)], plan.sampling[n], vocab_)};
      drawn.finite = states[static_cast<std::size_t>(row)] != kNotFinite;
      result.rows.push_back(drawn);
    }
    return result;
  }

  // The next pass's inputs.
  void advance(StepPlan& plan, const StepResult& drawn) const {
    for (std::size_t s = 0; s < plan.ids.size(); ++s) {
      const std::int32_t position = ++plan.positions[s];
      plan.ids[s] = drawn.rows[s].token;
      ++plan.context_lens[s];
      ++plan.sampling[s].step;
      const auto block =
          static_cast<std::size_t>(plan.block_starts[s]) + static_cast<std::size_t>(position / block_size_);
      if (block < static_cast<std::size_t>(plan.block_starts[s + 1]))
        plan.slots[s] = static_cast<std::int32_t>(plan.blocks[block] * block_size_ + position % block_size_);
    }
  }

  void run_sequence(const StepPlan& plan, std::size_t s, std::vector<std::uint64_t>& states) {
    const auto first = static_cast<std::size_t>(plan.seq_starts[s]),
               last = static_cast<std::size_t>(plan.seq_starts[s + 1]);
    const auto table = static_cast<std::size_t>(plan.block_starts[s]);
    const i64 longest = plan.context_lens[s] + plan.steps - 1;
    CHECK(plan.block_starts[s + 1] - plan.block_starts[s] == (longest + block_size_ - 1) / block_size_,
          "{} blocks for {} tokens", plan.block_starts[s + 1] - plan.block_starts[s], longest);
    CHECK(last > first && plan.positions[last - 1] + 1 == plan.context_lens[s], "context of sequence {}", s);
    const auto at = [&](i64 position) -> std::uint64_t& {
      const i64 block = plan.blocks[table + static_cast<std::size_t>(position / block_size_)];
      return cache_[static_cast<std::size_t>(block * block_size_ + position % block_size_)];
    };
    for (std::size_t t = first; t < last; ++t) {
      const i64 position = plan.positions[t];
      const std::uint64_t before = position == 0 ? 0 : at(position - 1);
      CHECK(position == 0 || before != 0, "position {} has no past", position);
      at(position) = before == kNotFinite || plan.ids[t] == poison ? kNotFinite : mix(before, plan.ids[t]);
      CHECK(&at(position) == &cache_[static_cast<std::size_t>(plan.slots[t])], "slot of position {}", position);
      states.push_back(at(position));
    }
  }

  static void check_slots(const StepPlan& plan) {
    const std::set<std::int32_t> distinct(plan.slots.begin(), plan.slots.end());
    CHECK(static_cast<i64>(distinct.size()) == plan.tokens(), "two tokens of a pass write one cache row");
  }

  static constexpr std::uint64_t kNotFinite = ~std::uint64_t{0};

  i64 block_size_;
  TokenId vocab_;
  std::vector<std::uint64_t> cache_;
};

}  // namespace fathom
