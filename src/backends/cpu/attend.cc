#include "backends/cpu/attend.h"

#include <algorithm>
#include <limits>

namespace fathom {

AttendPlan::AttendPlan(const Sequences& sequences, i64 heads, i64 heads_together, const CpuKernels& kernels,
                       const AttendForm& form)
    : kernels_(kernels),
      form_(form),
      positions_(sequences.positions.as<std::int32_t>()),
      lens_(sequences.context_lens.as<std::int32_t>()),
      key_step_(padded_step(form.key_width)),
      value_step_(padded_step(form.value_width)) {
  const auto* starts = sequences.seq_starts.as<std::int32_t>();
  for (i64 s = 0; s < sequences.sequences(); ++s) add_blocks(s, starts[s], starts[s + 1], heads, heads_together);
  tokens_ = sequences.sequences() > 0 ? starts[sequences.sequences()] : 0;
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    for (i64 run = 0; run < blocks_[b].runs(); ++run) runs_.emplace_back(b, run);
    work_ += blocks_[b].keys * (blocks_[b].rows() + 8) * (form.key_width + form.value_width) / 40;
  }
}

void AttendPlan::add_blocks(i64 sequence, i64 first, i64 end, i64 heads, i64 heads_together) {
  const i64 group = std::min(heads_together, kMaxRows), step = kMaxRows / group;
  for (i64 t = first; t < end; t += step)
    for (i64 h = 0; h < heads; h += group) {
      QueryBlock block{sequence, t, std::min(step, end - t), h, std::min(group, heads - h), 0};
      for (i64 i = 0; i < block.tokens; ++i)
        block.keys = std::max<i64>(block.keys, std::min(positions_[t + i] + 1, lens_[sequence]));
      blocks_.push_back(block);
    }
}

i64 AttendPlan::scratch_floats() const {
  const i64 values = form_.values_are_keys ? 0 : kSpanKeys * value_step_;
  return kMaxRows * key_step_ + kSpanKeys * key_step_ + values + kMaxRows * kSpanKeys + sums_floats();
}

SoftmaxSums AttendPlan::sums_at(float* space) const {
  return {space, space + kMaxRows, space + 2 * kMaxRows, value_step_};
}

SoftmaxSums AttendPlan::empty_sums(float* space) const {
  const SoftmaxSums sums = sums_at(space);
  std::fill_n(sums.top, kMaxRows, -std::numeric_limits<float>::infinity());
  std::fill_n(sums.sum, kMaxRows, 0.0f);
  return sums;
}

void AttendPlan::attend_run(const QueryBlock& block, i64 run, const SoftmaxSums& out, float* scratch) const {
  float* queries = scratch;
  float* keys = queries + kMaxRows * key_step_;
  float* values = form_.values_are_keys ? keys : keys + kSpanKeys * key_step_;
  float* scores = values + kSpanKeys * (form_.values_are_keys ? key_step_ : value_step_);
  const SoftmaxSums span = sums_at(scores + kMaxRows * kSpanKeys);
  const auto pad = [](float* rows, i64 count, i64 width, i64 step) {
    for (i64 r = 0; r < count; ++r) std::fill(rows + r * step + width, rows + (r + 1) * step, 0.0f);
  };
  const i64 rows = block.rows(), end = std::min(block.keys, (run + 1) * kRunKeys);
  pad(queries, rows, form_.key_width, key_step_);
  pad(keys, kSpanKeys, form_.key_width, key_step_);
  if (!form_.values_are_keys) pad(values, kSpanKeys, form_.value_width, value_step_);
  for (i64 m = 0; m < rows; ++m) form_.load_query(queries + m * key_step_, block.token_of(m), block.head_of(m));

  std::int32_t visible[kMaxRows];
  for (i64 first = run * kRunKeys; first < end; first += kSpanKeys) {
    const i64 count = std::min(kSpanKeys, end - first);
    for (i64 m = 0; m < rows; ++m)
      visible[m] =
          static_cast<std::int32_t>(std::min<i64>(positions_[block.token_of(m)] + 1, lens_[block.sequence]) - first);
    form_.load_keys(keys, values, block, first, count);
    kernels_.attend_span({queries, keys, key_step_, values, form_.values_are_keys ? key_step_ : value_step_, rows,
                          count, visible, form_.scale, scores},
                         span);
    kernels_.merge_sums(out, span, rows);
  }
}

}  // namespace fathom
