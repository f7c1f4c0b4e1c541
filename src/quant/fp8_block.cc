#include "quant/fp8_block.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "quant/e4m3_table.h"

namespace fathom {
namespace {

// Calls body(row0, row1, col0, col1, block) for each block, row by row.
template <typename Body>
void for_each_block(i64 rows, i64 cols, Body&& body) {
  i64 block = 0;
  for (i64 r = 0; r < rows; r += kFp8Block)
    for (i64 c = 0; c < cols; c += kFp8Block, ++block)
      body(r, std::min(rows, r + kFp8Block), c, std::min(cols, c + kFp8Block), block);
}

// float_to_e4m3 of finite values without branches, so that a loop of it becomes vector code: the subnormal and the
// normal form are both computed (numeric.h explains them) and one is chosen.
constexpr e4m3_bits finite_to_e4m3(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = std::min(bits & 0x7fffffffu, std::bit_cast<std::uint32_t>(kE4m3Max));
  const std::uint32_t small =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0x1p14f) - std::bit_cast<std::uint32_t>(0x1p14f);
  const std::uint32_t normal = ((magnitude + 0x7ffffu + (magnitude >> 20 & 1u)) >> 20) - (120u << 3);
  const std::uint32_t code = magnitude < std::bit_cast<std::uint32_t>(0x1p-6f) ? small : normal;
  return static_cast<e4m3_bits>(code | (bits >> 24 & 0x80u));
}

// One row of a block of full width.
void quantize_row(const float* w, float scale, e4m3_bits* codes) {
  for (i64 c = 0; c < kFp8Block; ++c) codes[c] = finite_to_e4m3(w[c] / scale);
}

// The largest magnitude of a row of full width, as bits: those of finite numbers are ordered as the numbers are.
std::int32_t largest_bits(const float* w) {
  std::int32_t largest = 0;
  for (i64 c = 0; c < kFp8Block; ++c) largest = std::max(largest, std::bit_cast<std::int32_t>(w[c]) & 0x7fffffff);
  return largest;
}

// Quantises a block of full width unless it holds infinities or NaN; says whether it did. `w`, `codes`: its first
// entry.
bool quantize_full_block(const float* w, i64 rows, i64 cols, bool power_of_two, e4m3_bits* codes, float& scale) {
  std::int32_t largest = 0;
  for (i64 r = 0; r < rows; ++r) largest = std::max(largest, largest_bits(w + r * cols));
  if (largest >= 0x7f800000) return false;
  scale = weight_scale(std::bit_cast<float>(largest), power_of_two);
  for (i64 r = 0; r < rows; ++r) quantize_row(w + r * cols, scale, codes + r * cols);
  return true;
}

}  // namespace

float weight_scale(float amax, bool power_of_two) {
  if (amax == 0) return 1.0f;
  // A scale below the normal numbers would lose its own digits, or be 0.
  const float scale = std::max(amax / kE4m3Max, std::numeric_limits<float>::min());
  return power_of_two ? round_up_to_power_of_two(scale) : scale;
}

void quantize_weight(const float* w, i64 rows, i64 cols, bool power_of_two, e4m3_bits* codes, float* scales) {
  for_each_block(rows, cols, [&](i64 r0, i64 r1, i64 c0, i64 c1, i64 block) {
    const i64 first = r0 * cols + c0;
    const bool full = c1 - c0 == kFp8Block;
    if (full && quantize_full_block(w + first, r1 - r0, cols, power_of_two, codes + first, scales[block])) return;
    float amax = 0;
    for (i64 r = r0; r < r1; ++r)
      for (i64 c = c0; c < c1; ++c) amax = std::max(amax, std::fabs(w[r * cols + c]));
    const float scale = scales[block] = weight_scale(amax, power_of_two);
    for (i64 r = r0; r < r1; ++r)
      for (i64 c = c0; c < c1; ++c) codes[r * cols + c] = float_to_e4m3(w[r * cols + c] / scale);
  });
}

void dequantize_weight(const e4m3_bits* codes, const float* scales, i64 rows, i64 cols, float* y) {
  for_each_block(rows, cols, [&](i64 r0, i64 r1, i64 c0, i64 c1, i64 block) {
    for (i64 r = r0; r < r1; ++r)
      for (i64 c = c0; c < c1; ++c) y[r * cols + c] = e4m3_to_float(codes[r * cols + c]) * scales[block];
  });
}

// A block has far more codes than there are different ones, so their values are computed once. Goes row by row, not
// block by block: memory is read and written as it lies.
void dequantize_weight(const e4m3_bits* codes, const float* scales, i64 rows, i64 cols, bf16_bits* y) {
  std::vector<CodeTable> tables(static_cast<std::size_t>(blocks_of(cols)));
  for (i64 r = 0; r < rows; ++r) {
    for (i64 c = 0; c < cols; c += kFp8Block) {
      CodeTable& table = tables[static_cast<std::size_t>(c / kFp8Block)];
      if (r % kFp8Block == 0) {
        const float scale = scales[r / kFp8Block * blocks_of(cols) + c / kFp8Block];
        for (std::size_t code = 0; code < table.size(); ++code)
          table[code] = float_to_bf16(e4m3_to_float(static_cast<e4m3_bits>(code)) * scale);
      }
      look_up(codes + r * cols + c, table, std::min(kFp8Block, cols - c), y + r * cols + c);
    }
  }
}

void quantize_activation(const float* x, i64 n, bool power_of_two, e4m3_bits* codes, float* scales) {
  CHECK(n % kFp8Block == 0, "Last dimension size must be divisible by block_size (block_size={}), it is {}", kFp8Block,
        n);
  for (i64 block = 0; block < n / kFp8Block; ++block) {
    const float* in = x + block * kFp8Block;
    float amax = 1e-4f;
    for (i64 i = 0; i < kFp8Block; ++i) amax = std::max(amax, std::fabs(in[i]));
    float scale = amax * (1.0f / kE4m3Max);
    if (power_of_two) scale = round_up_to_power_of_two(scale);
    scales[block] = scale;
    for (i64 i = 0; i < kFp8Block; ++i) codes[block * kFp8Block + i] = float_to_e4m3(in[i] / scale);
  }
}

}  // namespace fathom
