#include "engine/plan.h"

#include <cstring>
#include <numeric>
#include <tuple>

namespace fathom {
namespace {

// Every field of a plan, in the order of the bytes.
template <typename Plan>
auto fields(Plan& plan) {
  return std::tie(plan.ids, plan.positions, plan.slots, plan.seq_starts, plan.context_lens, plan.block_starts,
                  plan.blocks, plan.logit_rows, plan.sampling, plan.n_logprobs, plan.seen_starts, plan.seen);
}

void append(std::vector<std::byte>& bytes, std::span<const std::byte> more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

// The next `count` values.
template <typename T>
void take(std::span<const std::byte>& bytes, T* values, std::uint64_t count) {
  CHECK(count <= bytes.size() / sizeof(T), "a step plan ends too early: {} numbers wanted, {} bytes left", count,
        bytes.size());
  if (count > 0) std::memcpy(values, bytes.data(), count * sizeof(T));
  bytes = bytes.subspan(count * sizeof(T));
}

}  // namespace

void StepPlan::add_sequence(std::span<const TokenId> tokens, i64 start, std::span<const std::int32_t> table,
                            i64 block_size) {
  i64 position = start;
  for (const TokenId id : tokens) {
    ids.push_back(id);
    positions.push_back(static_cast<std::int32_t>(position));
    const std::int32_t block = table[static_cast<std::size_t>(position / block_size)];
    slots.push_back(static_cast<std::int32_t>(block * block_size + position % block_size));
    ++position;
  }
  seq_starts.push_back(static_cast<std::int32_t>(ids.size()));
  context_lens.push_back(static_cast<std::int32_t>(position));
  blocks.insert(blocks.end(), table.begin(), table.end());
  block_starts.push_back(static_cast<std::int32_t>(blocks.size()));
}

void StepPlan::add_row(const RowSampling& row, std::int32_t logprobs, std::span<const TokenId> tokens) {
  logit_rows.push_back(static_cast<std::int32_t>(ids.size() - 1));
  sampling.push_back(row);
  n_logprobs.push_back(logprobs);
  if (row.repetition_penalty != 1.0f) seen.insert(seen.end(), tokens.begin(), tokens.end());
  seen_starts.push_back(static_cast<std::int32_t>(seen.size()));
}

std::vector<std::byte> to_bytes(const StepPlan& plan) {
  std::vector<std::byte> bytes;
  const auto put = [&](const auto& values) {
    const std::uint64_t count = values.size();
    append(bytes, std::as_bytes(std::span(&count, 1)));
    append(bytes, std::as_bytes(std::span(values)));
  };
  std::apply([&](const auto&... field) { (put(field), ...); }, fields(plan));
  append(bytes, std::as_bytes(std::span(&plan.steps, 1)));
  return bytes;
}

StepPlan plan_from_bytes(std::span<const std::byte> bytes) {
  StepPlan plan;
  const auto get = [&]<typename T>(std::vector<T>& values) {
    std::uint64_t count = 0;
    take(bytes, &count, 1);
    CHECK(count <= bytes.size(), "a step plan announces {} numbers and has {} bytes left", count, bytes.size());
    values.resize(count);
    take(bytes, values.data(), count);
  };
  std::apply([&](auto&... field) { (get(field), ...); }, fields(plan));
  take(bytes, &plan.steps, 1);
  CHECK(bytes.empty(), "a step plan has {} bytes too many", bytes.size());
  return plan;
}

StepPlan single_sequence_plan(std::span<const TokenId> ids, i64 start, i64 block_size, bool logits) {
  std::vector<std::int32_t> table(
      static_cast<std::size_t>((start + static_cast<i64>(ids.size()) + block_size - 1) / block_size));
  std::iota(table.begin(), table.end(), 0);
  StepPlan plan;
  plan.add_sequence(ids, start, table, block_size);
  if (logits) plan.add_row({{.temperature = 0}});
  return plan;
}

}  // namespace fathom
