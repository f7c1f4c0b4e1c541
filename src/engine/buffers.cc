#include "engine/buffers.h"

#include <algorithm>

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

std::vector<std::int32_t> running_sum(const std::vector<std::int32_t>& lengths) {
  std::vector<std::int32_t> sums{0};
  for (const std::int32_t length : lengths) sums.push_back(sums.back() + length);
  return sums;
}

// The first n entries of a buffer, filled from the host.
template <typename T>
Tensor fill(Backend& backend, const Tensor& buffer, const std::vector<T>& values) {
  const Tensor part = buffer.narrow(0, 0, static_cast<i64>(values.size()));
  if (!values.empty()) backend.upload(part, values.data());
  return part;
}

// Small tables in one piece; of large ones each row's used entries, the others are never read.
void upload_tables(Backend& backend, const Tensor& table, const StepPlan& plan) {
  constexpr i64 kOnePiece = i64{64} << 10;  // bytes
  const bool whole = table.bytes() <= kOnePiece;
  std::vector<std::int32_t> all(whole ? static_cast<std::size_t>(table.numel()) : 0);
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

PassBuffers PassBuffers::make(Arena& arena, const ModelArgs& args, const RunnerOptions& options) {
  const i64 tokens = options.max_tokens, sequences = options.max_sequences;
  const auto i32s = [&](i64 n) { return arena.empty({n}, DType::i32); };
  const auto f32s = [&] { return arena.empty({sequences}, DType::f32); };
  const auto i64s = [&] { return arena.empty({sequences}, DType::i64); };
  return {.ids = i32s(tokens),
          .positions = i32s(tokens),
          .slots = i32s(tokens),
          .seq_starts = i32s(sequences + 1),
          .context_lens = i32s(sequences),
          .context_starts = i32s(sequences + 1),
          .block_tables = arena.empty({sequences, options.blocks_of(options.max_seq_len)}, DType::i32),
          .logit_rows = i32s(sequences),
          .top_k = i32s(sequences),
          .temperature = f32s(),
          .top_p = f32s(),
          .min_p = f32s(),
          .repetition_penalty = f32s(),
          .seed = i64s(),
          .step = i64s(),
          .seen = arena.empty({sequences, (args.vocab_size + 7) / 8}, DType::u8),
          .log = i32s((1 + options.max_steps) * sequences)};
}

Batch PassBuffers::whole_batch() const {
  return {.ids = ids,
          .positions = positions,
          .slots = slots,
          .seq_starts = seq_starts,
          .context_lens = context_lens,
          .context_starts = context_starts,
          .block_tables = block_tables,
          .logit_rows = logit_rows};
}

SampleArgs PassBuffers::sampling(i64 count) const {
  const auto rows = [&](const Tensor& x) { return x.narrow(0, 0, count); };
  return {.temperature = rows(temperature),
          .top_k = rows(top_k),
          .top_p = rows(top_p),
          .min_p = rows(min_p),
          .repetition_penalty = rows(repetition_penalty),
          .seed = rows(seed),
          .step = rows(step),
          .seen = rows(seen)};
}

Batch PassBuffers::upload(Backend& backend, const StepPlan& plan) const {
  const auto starts = running_sum(plan.context_lens);
  const Tensor table = block_tables.narrow(0, 0, plan.sequences());
  upload_tables(backend, table, plan);
  return {.ids = fill(backend, ids, plan.ids),
          .positions = fill(backend, positions, plan.positions),
          .slots = fill(backend, slots, plan.slots),
          .seq_starts = fill(backend, seq_starts, plan.seq_starts),
          .context_lens = fill(backend, context_lens, plan.context_lens),
          .context_starts = fill(backend, context_starts, starts),
          .block_tables = table,
          .logit_rows = fill(backend, logit_rows, plan.logit_rows),
          .total_context = starts.back(),
          .max_context = *std::max_element(plan.context_lens.begin(), plan.context_lens.end())};
}

SampleArgs PassBuffers::upload_sampling(Backend& backend, const StepPlan& plan) const {
  SampleArgs args{.temperature = fill(backend, temperature, plan.temperature),
                  .top_k = fill(backend, top_k, plan.top_k),
                  .top_p = fill(backend, top_p, plan.top_p),
                  .min_p = fill(backend, min_p, plan.min_p),
                  .repetition_penalty = fill(backend, repetition_penalty, plan.repetition_penalty),
                  .seed = fill(backend, seed, plan.seed),
                  .step = fill(backend, step, plan.step),
                  .seen = {}};
  if (plan.seen.empty()) return args;
  args.seen = seen.narrow(0, 0, plan.rows());
  backend.upload(args.seen, seen_bits(plan, seen.dim(1)).data());
  return args;
}

}  // namespace fathom
