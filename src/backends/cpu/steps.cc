// Between decode steps: the drawn tokens become the next step's input.
#include "backends/cpu/act.h"
#include "backends/cpu/cpu_backend.h"

namespace fathom {

void CpuBackend::run(const op::MarkNotFinite& op) {
  const Rows in(op.logits);
  auto* id = op.ids.as<std::int32_t>();
  parallel(in.count, in.width / 4, [&](i64 begin, i64 end, int) {
    for (i64 i = begin; i < end; ++i) {
      constexpr std::uint32_t kExponent = 0x7f800000;  // all ones: infinite or NaN
      const auto* row = static_cast<const std::uint32_t*>(in.row(i));
      std::uint32_t bad = 0;
      for (i64 j = 0; j < in.width; ++j) bad |= static_cast<std::uint32_t>((row[j] & kExponent) == kExponent);
      if (bad != 0) id[i] = -1;
    }
  });
}

void CpuBackend::run(const op::Advance& op) {
  const auto& [batch, drawn, sampling, log, block_size] = op;
  const Sequences& sequences = batch.runs.front();
  const i64 count = batch.tokens(), width = sequences.block_tables.dim(1);
  auto* rows = log.as<std::int32_t>();
  const std::int32_t row = rows[0];
  const bool room = row < log.dim(0) - 1;
  for (i64 i = 0; i < count; ++i) {
    const std::int32_t id = drawn.as<std::int32_t>()[i];
    if (room) rows[(row + 1) * count + i] = id;
    std::int32_t& slot = sequences.slots.as<std::int32_t>()[i];
    if (slot < 0) continue;
    const std::int32_t position = ++sequences.positions.as<std::int32_t>()[i];
    batch.ids.as<std::int32_t>()[i] = id;
    ++sequences.context_lens.as<std::int32_t>()[i];
    ++static_cast<RowSampling*>(sampling.rows.data())[i].step;
    const i64 block = position / block_size;
    const auto* table = sequences.block_tables.as<std::int32_t>() + i * sequences.block_tables.stride(0);
    slot = block < width ? static_cast<std::int32_t>(table[block] * block_size + position % block_size) : -1;
  }
  if (room) rows[0] = row + 1;
}

}  // namespace fathom
