#include "engine/plan.h"

#include <cstring>
#include <tuple>
#include <type_traits>

namespace fathom {
namespace {

// Every field of a plan, in the order of the bytes.
template <typename Plan>
auto fields(Plan& plan) {
  return std::tie(plan.ids, plan.positions, plan.slots, plan.seq_starts, plan.context_lens, plan.block_starts,
                  plan.blocks, plan.logit_rows, plan.temperature, plan.top_k, plan.top_p, plan.min_p,
                  plan.repetition_penalty, plan.seed, plan.step, plan.n_logprobs, plan.seen_starts, plan.seen);
}

template <typename T>
void append(std::vector<std::byte>& bytes, const std::vector<T>& values) {
  const auto count = static_cast<std::uint64_t>(values.size());
  const auto raw = std::as_bytes(std::span(values));
  const auto head = std::as_bytes(std::span(&count, 1));
  bytes.insert(bytes.end(), head.begin(), head.end());
  bytes.insert(bytes.end(), raw.begin(), raw.end());
}

template <typename T>
void take(std::span<const std::byte>& bytes, std::vector<T>& values) {
  std::uint64_t count = 0;
  CHECK(bytes.size() >= sizeof(count), "a step plan ends too early");
  std::memcpy(&count, bytes.data(), sizeof(count));
  bytes = bytes.subspan(sizeof(count));
  CHECK(count <= bytes.size() / sizeof(T), "a step plan ends too early: {} numbers announced, {} bytes left", count,
        bytes.size());
  values.resize(count);
  if (count > 0) std::memcpy(values.data(), bytes.data(), count * sizeof(T));
  bytes = bytes.subspan(count * sizeof(T));
}

}  // namespace

std::vector<std::byte> to_bytes(const StepPlan& plan) {
  std::vector<std::byte> bytes;
  std::apply([&](const auto&... field) { (append(bytes, field), ...); }, fields(plan));
  append(bytes, std::vector<i64>{plan.steps});
  return bytes;
}

StepPlan plan_from_bytes(std::span<const std::byte> bytes) {
  StepPlan plan;
  std::apply([&](auto&... field) { (take(bytes, field), ...); }, fields(plan));
  std::vector<i64> steps;
  take(bytes, steps);
  CHECK(steps.size() == 1, "a step plan has {} counts of passes", steps.size());
  plan.steps = steps[0];
  CHECK(bytes.empty(), "a step plan has {} bytes too many", bytes.size());
  return plan;
}

StepPlan single_sequence_plan(std::span<const TokenId> ids, i64 start, i64 block_size, bool logits) {
  StepPlan plan;
  const auto count = static_cast<i64>(ids.size());
  plan.ids.assign(ids.begin(), ids.end());
  for (i64 i = 0; i < count; ++i) plan.positions.push_back(static_cast<std::int32_t>(start + i));
  plan.slots = plan.positions;
  plan.seq_starts = {0, static_cast<std::int32_t>(count)};
  plan.context_lens = {static_cast<std::int32_t>(start + count)};
  const auto blocks = static_cast<std::int32_t>((start + count + block_size - 1) / block_size);
  for (std::int32_t block = 0; block < blocks; ++block) plan.blocks.push_back(block);
  plan.block_starts = {0, blocks};
  plan.seen_starts = {0};
  if (!logits) return plan;
  plan.logit_rows = {static_cast<std::int32_t>(count - 1)};
  plan.temperature = {0};
  plan.top_k = {0};
  plan.top_p = {1};
  plan.min_p = {0};
  plan.repetition_penalty = {1};
  plan.seed = {0};
  plan.step = {0};
  plan.n_logprobs = {-1};
  plan.seen_starts = {0, 0};
  return plan;
}

}  // namespace fathom
