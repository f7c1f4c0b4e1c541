#include "quant/fp8_block.h"

#include <algorithm>
#include <cmath>

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

template <typename Store>
void dequantize(const e4m3_bits* codes, const float* scales, i64 rows, i64 cols, Store&& store) {
  for_each_block(rows, cols, [&](i64 r0, i64 r1, i64 c0, i64 c1, i64 block) {
    for (i64 r = r0; r < r1; ++r)
      for (i64 c = c0; c < c1; ++c) store(r * cols + c, e4m3_to_float(codes[r * cols + c]) * scales[block]);
  });
}

}  // namespace

float weight_scale(float amax, bool power_of_two) {
  if (amax == 0) return 1.0f;
  const float scale = amax / kE4m3Max;
  return power_of_two ? round_up_to_power_of_two(scale) : scale;
}

void quantize_weight(const float* w, i64 rows, i64 cols, bool power_of_two, e4m3_bits* codes, float* scales) {
  for_each_block(rows, cols, [&](i64 r0, i64 r1, i64 c0, i64 c1, i64 block) {
    float amax = 0;
    for (i64 r = r0; r < r1; ++r)
      for (i64 c = c0; c < c1; ++c) amax = std::max(amax, std::fabs(w[r * cols + c]));
    const float scale = scales[block] = weight_scale(amax, power_of_two);
    for (i64 r = r0; r < r1; ++r)
      for (i64 c = c0; c < c1; ++c) codes[r * cols + c] = float_to_e4m3(w[r * cols + c] / scale);
  });
}

void dequantize_weight(const e4m3_bits* codes, const float* scales, i64 rows, i64 cols, float* y) {
  dequantize(codes, scales, rows, cols, [y](i64 i, float value) { y[i] = value; });
}

void dequantize_weight(const e4m3_bits* codes, const float* scales, i64 rows, i64 cols, bf16_bits* y) {
  dequantize(codes, scales, rows, cols, [y](i64 i, float value) { y[i] = float_to_bf16(value); });
}

void quantize_activation(const float* x, i64 n, bool power_of_two, e4m3_bits* codes, float* scales) {
  CHECK(n % kFp8Block == 0, "last dimension size must be divisible by block_size (block_size={}), it is {}", kFp8Block,
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
