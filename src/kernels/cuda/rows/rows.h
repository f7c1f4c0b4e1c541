// Row by row: embedding, norms, quantisation, element by element. What each computes is stated in ops/backend.h under
// the same name; shapes here are [dim[0], dim[1], dim[2]].
#pragma once

#include "kernels/cuda/array.h"
#include "kernels/cuda/device.h"

namespace fathom::cuda {

void embedding(Stream& s, const Array& y, const Array& table, const std::int32_t* ids, i64 first);
void gather_rows(Stream& s, const Array& y, const Array& x, const std::int32_t* rows);
void cast(Stream& s, const Array& y, const Array& x);
void add(Stream& s, const Array& x, const Array& y);
void rms_norm(Stream& s, const Array& y, const Array& x, const float* weight, float eps);
void silu_mul(Stream& s, const Array& y, const Array& a, const Array& b);
void quantize(Stream& s, std::uint8_t* codes, float* scales, const Array& x, bool power_of_two);
void dequantize(Stream& s, const Array& y, const Matrix& w);

// ---- many rows, 16 bytes at a time (rows_vector.cu); false where rows are not aligned to that, or few ----
bool rms_norm_vector(Stream& s, const Array& y, const Array& x, const float* weight, float eps);
bool silu_mul_vector(Stream& s, const Array& y, const Array& a, const Array& b);
bool combine_vector(Stream& s, const Array& y, const Array& rows, const std::int32_t* places, const float* weights,
                    int top_k);
// As quantize, of bf16 rows aligned to 16 bytes, with scales [d / 128, stride].
void quantize_by_column(Stream& s, std::uint8_t* codes, float* scales, i64 stride, const Array& x, bool power_of_two);

}  // namespace fathom::cuda
