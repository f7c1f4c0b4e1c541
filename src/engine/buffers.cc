#include "engine/buffers.h"

#include <algorithm>
#include <span>

namespace fathom {
namespace {

// Bit set of the tokens that each row of the plan has seen: [N, width].
std::vector<std::uint8_t> seen_bits(const StepPlan& plan, i64 width) {
  std::vector<std::uint8_t> bits(static_cast<std::size_t>(plan.rows() * width));
  for (std::size_t row = 0; row < static_cast<std::size_t>(plan.rows()); ++row)
    for (auto i = static_cast<std::size_t>(plan.seen_starts[row]);
         i < static_cast<std::size_t>(plan.seen_starts[row + 1]); ++i) {
      const auto id = static_cast<std::size_t>(plan.seen[i]);
      bits[row * static_cast<std::size_t>(width) + id / 8] |= static_cast<std::uint8_t>(1u << id % 8);
    }
  return bits;
}

// Small tables in one piece; of large ones each row's used entries, the others are never read.
void upload_tables(Backend& backend, const Tensor& table, const StepPlan& plan) {
  constexpr i64 kOnePiece = i64{64} << 10;  // bytes
  const bool whole = table.bytes() <= kOnePiece;
  constexpr std::int32_t kNoBlock = -(1 << 24);  // its slots are negative, and reading them fails at once
  std::vector<std::int32_t> all(whole ? static_cast<std::size_t>(table.numel()) : 0, kNoBlock);
  for (i64 s = 0; s < plan.sequences(); ++s) {
    const std::int32_t first = plan.block_starts[static_cast<std::size_t>(s)],
                       count = plan.block_starts[static_cast<std::size_t>(s) + 1] - first;
    const std::int32_t* blocks = plan.blocks.data() + first;
    if (whole)
      std::copy_n(blocks, count, all.begin() + s * table.dim(1));
    else
      backend.upload(table[s].narrow(0, 0, count), blocks);
  }
  if (whole) backend.upload(table, all.data());
}

}  // namespace

PassBuffers::PassBuffers(Arena& arena, const ModelArgs& args, const Limits& limits) : max_steps_(limits.max_steps) {
  const i64 sequences = limits.max_sequences;
  const auto i32s = [&](const Shape& shape) { return arena.empty(shape, DType::i32); };
  for (Tensor* each : {&ids_, &positions_, &slots_}) *each = i32s({limits.max_tokens});
  block_tables_ = i32s({sequences, limits.blocks_of(limits.max_seq_len)});
  seen_ = arena.empty({limits.max_rows, (args.vocab_size + 7) / 8}, DType::u8);
  log_ = i32s({(1 + max_steps_) * sequences});
  seq_starts_ = i32s({2 * sequences}), context_starts_ = i32s({2 * sequences}), context_lens_ = i32s({sequences});
  logit_rows_ = i32s({limits.max_rows});
  sampling_ = arena.empty({limits.max_rows, sizeof(RowSampling)}, DType::u8);
  auto* first = static_cast<std::byte*>(seq_starts_.data());
  const i64 bytes = static_cast<std::byte*>(sampling_.data()) + sampling_.bytes() - first;
  together_ = Tensor(first, DType::u8, {bytes}, seq_starts_.device());
  image_.resize(static_cast<std::size_t>(bytes));
}

i64 PassBuffers::bytes(const ModelArgs& args, const Limits& limits) {
  Arena measure;
  const PassBuffers buffers(measure, args, limits);
  return static_cast<i64>(measure.peak());
}

PassBuffers::Inputs PassBuffers::largest(i64 tokens, std::span<const ops::RunShape> runs) const {
  Inputs inputs{{.ids = ids_.narrow(0, 0, tokens), .logit_rows = logit_rows_, .runs = {}},
                {.rows = sampling_, .seen = seen_}};
  for (const ops::RunShape& run : runs)
    inputs.batch.runs.push_back({.positions = positions_.narrow(0, run.first_token, run.tokens),
                                 .slots = slots_.narrow(0, run.first_token, run.tokens),
                                 .seq_starts = seq_starts_.narrow(0, 0, run.count + 1),
                                 .context_lens = context_lens_.narrow(0, 0, run.count),
                                 .context_starts = context_starts_.narrow(0, 0, run.count + 1),
                                 .block_tables = block_tables_.narrow(0, 0, run.count),
                                 .first_token = run.first_token,
                                 .total_context = run.total_context,
                                 .max_context = run.max_context,
                                 .expanded = run.expanded});
  return inputs;
}

Tensor PassBuffers::log(i64 count) const {
  return log_.narrow(0, 0, (1 + max_steps_) * count).view({1 + max_steps_, count});
}

// The first entries of one of the buffers that lie together: into their image, which is uploaded later.
template <typename T>
Tensor PassBuffers::fill(const Tensor& buffer, const std::vector<T>& values) {
  const auto offset = static_cast<std::byte*>(buffer.data()) - static_cast<std::byte*>(together_.data());
  const auto bytes = std::as_bytes(std::span(values));
  std::copy(bytes.begin(), bytes.end(), image_.begin() + offset);
  return buffer.narrow(0, 0, static_cast<i64>(values.size()));
}

PassBuffers::Inputs PassBuffers::upload(Backend& backend, const StepPlan& plan, i64 expand_from) {
  const auto send = [&](const Tensor& buffer, const std::vector<std::int32_t>& values) {
    const Tensor part = buffer.narrow(0, 0, static_cast<i64>(values.size()));
    backend.upload(part, values.data());
    return part;
  };
  const Tensor positions = send(positions_, plan.positions), slots = send(slots_, plan.slots),
               lens = fill(context_lens_, plan.context_lens), table = block_tables_.narrow(0, 0, plan.sequences());
  Inputs inputs{{.ids = send(ids_, plan.ids), .logit_rows = fill(logit_rows_, plan.logit_rows), .runs = {}},
                {.rows = fill(sampling_, plan.sampling), .seen = {}}};
  std::vector<std::int32_t> seq_starts, context_starts;  // of each run from 0
  for (const ops::RunShape& run : ops::attention_runs(plan.seq_starts, plan.context_lens, expand_from)) {
    const auto at = static_cast<i64>(seq_starts.size());
    seq_starts.push_back(0), context_starts.push_back(0);
    for (auto s = static_cast<std::size_t>(run.first); s < static_cast<std::size_t>(run.first + run.count); ++s) {
      seq_starts.push_back(plan.seq_starts[s + 1] - static_cast<std::int32_t>(run.first_token));
      context_starts.push_back(context_starts.back() + plan.context_lens[s]);
    }
    inputs.batch.runs.push_back({.positions = positions.narrow(0, run.first_token, run.tokens),
                                 .slots = slots.narrow(0, run.first_token, run.tokens),
                                 .seq_starts = seq_starts_.narrow(0, at, run.count + 1),
                                 .context_lens = lens.narrow(0, run.first, run.count),
                                 .context_starts = context_starts_.narrow(0, at, run.count + 1),
                                 .block_tables = table.narrow(0, run.first, run.count),
                                 .first_token = run.first_token,
                                 .total_context = run.total_context,
                                 .max_context = run.max_context,
                                 .expanded = run.expanded});
  }
  fill(seq_starts_, seq_starts), fill(context_starts_, context_starts);
  upload_tables(backend, table, plan);
  backend.upload(together_, image_.data());
  const std::int32_t none = 0;
  backend.upload(log_.narrow(0, 0, 1), &none);
  if (plan.seen.empty()) return inputs;
  inputs.sampling.seen = seen_.narrow(0, 0, plan.rows());
  backend.upload(inputs.sampling.seen, seen_bits(plan, seen_.dim(1)).data());
  return inputs;
}

}  // namespace fathom
