// FP8 in blocks, the plain reference forms on host memory: quantise and dequantise weights (128 x 128 squares) and
// activations (128 entries of a row). Sources: reference kernel.py (act_quant, weight_dequant) and the published
// weights.
#pragma once

#include <cstdint>
#include <span>

#include "base/check.h"
#include "base/numeric.h"

namespace fathom {

inline constexpr i64 kFp8Block = 128;

// Blocks that cover n entries.
constexpr i64 blocks_of(i64 n, i64 block = kFp8Block) { return (n + block - 1) / block; }

// The scale of a block whose largest magnitude is `amax`: amax / 448 (1 for an all-zero block), rounded up to a power
// of two if asked.
float weight_scale(float amax, bool power_of_two);

// w: [rows, cols] float32 -> codes [rows, cols], scales [blocks_of(rows), blocks_of(cols)].
// code = e4m3(w / scale).
void quantize_weight(const float* w, i64 rows, i64 cols, bool power_of_two, e4m3_bits* codes, float* scales);

// value = code * scale; as float32, or rounded to bf16 (bit-equal to the reference's weight_dequant).
void dequantize_weight(const e4m3_bits* codes, const float* scales, i64 rows, i64 cols, float* y);
void dequantize_weight(const e4m3_bits* codes, const float* scales, i64 rows, i64 cols, bf16_bits* y);

// One row of activations, n a multiple of 128: scale = max(amax, 1e-4) * float32(1 / 448) as the compiled reference
// kernel computes it, rounded up to a power of two if asked; code = e4m3(x / scale).
void quantize_activation(const float* x, i64 n, bool power_of_two, e4m3_bits* codes, float* scales);

}  // namespace fathom
