// Products with weights: format -> loop.
#include <algorithm>
#include <cstring>

#include "backends/cpu/act.h"
#include "backends/cpu/cpu_backend.h"
#include "quant/fp8_block.h"

namespace fathom {
namespace {

float dot(const float* a, const float* b, i64 n) {
  float sums[8] = {};
  i64 i = 0;
  for (; i + 8 <= n; i += 8)
    for (int k = 0; k < 8; ++k) sums[k] += a[i + k] * b[i + k];
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

void widen_row(float* y, const void* x, DType dtype, i64 n) {
  if (dtype == DType::f32) {
    std::memcpy(y, x, static_cast<std::size_t>(n) * sizeof(float));
  } else {
    const auto* in = static_cast<const bf16_bits*>(x);
    for (i64 i = 0; i < n; ++i) y[i] = bf16_to_float(in[i]);
  }
}

void store_one(void* row, DType dtype, i64 i, float value) {
  if (dtype == DType::f32)
    static_cast<float*>(row)[i] = value;
  else
    static_cast<bf16_bits*>(row)[i] = float_to_bf16(value);
}

// Row `row` of a weight as float32, exact (fp8: code * scale).
void weight_row(float* y, const Weight& w, i64 row) {
  const i64 n = w.in();
  const void* data = static_cast<const std::byte*>(w.data.data()) + row * w.data.stride(0) * size_of(w.data.dtype());
  if (!w.format->has_scale()) return widen_row(y, data, w.data.dtype(), n);
  const auto* codes = static_cast<const e4m3_bits*>(data);
  const float* scales = w.scale.as<float>() + row / w.format->block * w.scale.stride(0);
  for (i64 i = 0; i < n; ++i) y[i] = e4m3_to_float(codes[i]) * scales[i / w.format->block];
}

bool quantises(const Weight& w, GemmMode mode) { return mode == GemmMode::fp8 && w.format->has_scale(); }

// Quantises a row of activations and puts code * scale back.
void round_to_fp8(float* x, i64 n, bool power_of_two) {
  e4m3_bits codes[kFp8Block];
  float scale;
  for (i64 i = 0; i < n; i += kFp8Block) {
    quantize_activation(x + i, kFp8Block, power_of_two, codes, &scale);
    for (i64 k = 0; k < kFp8Block; ++k) x[i + k] = e4m3_to_float(codes[k]) * scale;
  }
}

}  // namespace

void CpuBackend::linear(const Tensor& y, const Tensor& x, const Weight& w, GemmMode mode) {
  const Rows out(y), in(x);
  const bool quantised = quantises(w, mode);
  CHECK(!quantised || in.width % kFp8Block == 0,
        "Last dimension size must be divisible by block_size (block_size={}), it is {}", kFp8Block, in.width);
  if (out.count == 0) return;
  float* wide = scratch(-1, in.count * in.width);
  parallel(in.count, in.width, [&](i64 begin, i64 end, int) {
    for (i64 t = begin; t < end; ++t) {
      widen_row(wide + t * in.width, in.row(t), in.dtype, in.width);
      if (quantised) round_to_fp8(wide + t * in.width, in.width, w.format->power_of_two);
    }
  });
  parallel(w.out(), in.width * in.count, [&](i64 begin, i64 end, int worker) {
    float* row = scratch(worker, in.width);
    for (i64 o = begin; o < end; ++o) {
      weight_row(row, w, o);
      for (i64 t = 0; t < in.count; ++t) store_one(out.row(t), out.dtype, o, dot(wide + t * in.width, row, in.width));
    }
  });
}

void CpuBackend::grouped_linear(const Tensor& y, const Tensor& x, const Weight& w, const Tensor& offsets,
                                GemmMode mode) {
  const auto* offset = offsets.as<std::int32_t>();
  for (i64 e = 0; e + 1 < offsets.dim(0); ++e) {
    const i64 rows = offset[e + 1] - offset[e];
    if (rows > 0) linear(y.narrow(0, offset[e], rows), x.narrow(0, offset[e], rows), w[e], mode);
  }
}

void CpuBackend::head_matmul(const Tensor& y, const Tensor& x, const Tensor& w) {
  const i64 tokens = x.dim(0), heads = x.dim(1), k = x.dim(2), n = y.dim(2);
  const auto address = [](const Tensor& t, i64 a, i64 b) {
    return static_cast<std::byte*>(t.data()) + (a * t.stride(0) + b * t.stride(1)) * size_of(t.dtype());
  };
  if (tokens == 0) return;
  parallel(heads * n, k * tokens, [&](i64 begin, i64 end, int worker) {
    float* row = scratch(worker, 2 * k);
    for (i64 item = begin; item < end; ++item) {
      const i64 h = item / n, o = item % n;
      widen_row(row, address(w, h, o), w.dtype(), k);
      for (i64 t = 0; t < tokens; ++t) {
        widen_row(row + k, address(x, t, h), x.dtype(), k);
        store_one(address(y, t, h), y.dtype(), o, dot(row, row + k, k));
      }
    }
  });
}

void CpuBackend::dequantize(const Tensor& y, const Weight& w) {
  const Rows out(y);
  parallel(w.out(), w.in(), [&](i64 begin, i64 end, int worker) {
    float* row = scratch(worker, w.in());
    for (i64 o = begin; o < end; ++o) {
      weight_row(row, w, o);
      for (i64 i = 0; i < w.in(); ++i) store_one(out.row(o), out.dtype, i, row[i]);
    }
  });
}

}  // namespace fathom
