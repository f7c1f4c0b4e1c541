// Rows and elementwise operations.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/rows/rows.h"

namespace fathom::cuda {
namespace {

constexpr int kThreads = 256;

// Element offset of row `index` of all leading dimensions taken together.
__device__ i64 row_offset(const Array& x, i64 index) {
  i64 offset = 0;
  for (int d = x.rank - 2; d >= 0; --d) {
    offset += index % x.dim[d] * x.stride[d];
    index /= x.dim[d];
  }
  return offset;
}

__global__ void embedding_kernel(Array y, Array table, const std::int32_t* ids, i64 first) {
  let_next_start();
  wait_for_previous();
  const i64 row = ids[blockIdx.x] - first;
  const bool here = row >= 0 && row < table.dim[0];
  for (i64 i = threadIdx.x; i < y.dim[1]; i += blockDim.x)
    store(y.data, y.type, blockIdx.x * y.stride[0] + i,
          here ? load(table.data, table.type, row * table.stride[0] + i) : 0);
}

__global__ void gather_rows_kernel(Array y, Array x, const std::int32_t* rows) {
  let_next_start();
  wait_for_previous();
  const i64 row = rows[blockIdx.x];
  for (i64 i = threadIdx.x; i < y.dim[1]; i += blockDim.x)
    store(y.data, y.type, blockIdx.x * y.stride[0] + i, load(x.data, x.type, row * x.stride[0] + i));
}

__global__ void cast_kernel(Array y, Array x, i64 rows, i64 width) {
  for (i64 r = blockIdx.x; r < rows; r += gridDim.x) {
    const i64 to = row_offset(y, r), from = row_offset(x, r);
    for (i64 i = threadIdx.x; i < width; i += blockDim.x) store(y.data, y.type, to + i, load(x.data, x.type, from + i));
  }
}

__global__ void add_kernel(Array x, Array y, i64 n) {
  for (i64 i = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; i < n;
       i += static_cast<i64>(gridDim.x) * blockDim.x)
    store(x.data, x.type, i, load(x.data, x.type, i) + load(y.data, y.type, i));
}

__global__ void rms_norm_kernel(Array y, Array x, const float* weight, float eps) {
  __shared__ float shared[32];
  let_next_start();
  wait_for_previous();
  const i64 width = x.dim[1], from = blockIdx.x * x.stride[0], to = blockIdx.x * y.stride[0];
  float sum = 0;
  for (i64 i = threadIdx.x; i < width; i += blockDim.x) {
    const float value = load(x.data, x.type, from + i);
    sum += value * value;
  }
  const float factor = 1.0f / sqrtf(block_sum(sum, shared) / static_cast<float>(width) + eps);
  for (i64 i = threadIdx.x; i < width; i += blockDim.x)
    store(y.data, y.type, to + i, load(x.data, x.type, from + i) * factor * weight[i]);
}

__global__ void silu_mul_kernel(Array y, Array a, Array b) {
  let_next_start();
  wait_for_previous();
  for (i64 i = threadIdx.x + static_cast<i64>(blockIdx.y) * blockDim.x; i < y.dim[1];
       i += static_cast<i64>(gridDim.y) * blockDim.x) {
    const float gate = load(a.data, a.type, blockIdx.x * a.stride[0] + i);
    const float up = load(b.data, b.type, blockIdx.x * b.stride[0] + i);
    store(y.data, y.type, blockIdx.x * y.stride[0] + i, gate / (1.0f + expf(-gate)) * up);
  }
}

// One warp a block of 128 entries; the arithmetic is that of quant/fp8_block.cc, quantize_activation.
__global__ void quantize_kernel(std::uint8_t* codes, float* scales, Array x, bool power_of_two) {
  let_next_start();
  wait_for_previous();
  const i64 blocks = x.dim[1] / 128, item = blockIdx.x * static_cast<i64>(blockDim.x / 32) + threadIdx.x / 32;
  if (item >= x.dim[0] * blocks) return;
  const i64 row = item / blocks, block = item % blocks;
  const int lane = threadIdx.x % 32;
  float values[4], amax = 1e-4f;
  for (int k = 0; k < 4; ++k) {
    values[k] = load(x.data, x.type, row * x.stride[0] + block * 128 + lane * 4 + k);
    amax = max_or_nan(amax, fabsf(values[k]));
  }
  for (int mask = 16; mask > 0; mask >>= 1) amax = max_or_nan(amax, __shfl_xor_sync(0xffffffffu, amax, mask));
  const float scale = activation_scale(amax, power_of_two);
  std::uint32_t packed = 0;
  for (int k = 0; k < 4; ++k) packed |= static_cast<std::uint32_t>(float_to_e4m3(__fdiv_rn(values[k], scale))) << 8 * k;
  reinterpret_cast<std::uint32_t*>(codes)[(row * x.dim[1] + block * 128) / 4 + lane] = packed;
  if (lane == 0) scales[item] = scale;
}

__global__ void dequantize_kernel(Array y, Matrix w) {
  const i64 row = blockIdx.x, blocks = (w.in + 127) / 128;
  const auto* codes = static_cast<const std::uint8_t*>(w.data) + row * w.in;
  const float* scales = w.scale + row / 128 * blocks;
  for (i64 i = threadIdx.x; i < w.in; i += blockDim.x)
    store(y.data, y.type, row * y.stride[0] + i, e4m3_to_float(codes[i]) * scales[i / 128]);
}

}  // namespace

void embedding(Stream& s, const Array& y, const Array& table, const std::int32_t* ids, i64 first) {
  if (y.dim[0] == 0) return;
  launch_early(embedding_kernel, "embedding", static_cast<unsigned>(y.dim[0]), kThreads, 0, s, y, table, ids, first);
}

void gather_rows(Stream& s, const Array& y, const Array& x, const std::int32_t* rows) {
  if (y.dim[0] == 0) return;
  launch_early(gather_rows_kernel, "gather_rows", static_cast<unsigned>(y.dim[0]), kThreads, 0, s, y, x, rows);
}

void cast(Stream& s, const Array& y, const Array& x) {
  i64 rows = 1;
  for (int d = 0; d + 1 < x.rank; ++d) rows *= x.dim[d];
  const i64 width = x.rank == 0 ? 1 : x.dim[x.rank - 1];
  if (rows == 0 || width == 0) return;
  launch(cast_kernel, {"cast", static_cast<unsigned>(rows < 65536 ? rows : 65536), kThreads}, s, y, x, rows, width);
}

void add(Stream& s, const Array& x, const Array& y) {
  i64 n = 1;
  for (int d = 0; d < x.rank; ++d) n *= x.dim[d];
  if (n == 0) return;
  const int blocks = min(ceil_div(n, kThreads * 4), 4096);
  launch(add_kernel, {"add", blocks, kThreads}, s, x, y, n);
}

void rms_norm(Stream& s, const Array& y, const Array& x, const float* weight, float eps) {
  if (x.dim[0] == 0 || rms_norm_vector(s, y, x, weight, eps)) return;
  launch_early(rms_norm_kernel, "rms_norm", static_cast<unsigned>(x.dim[0]), kThreads, 0, s, y, x, weight, eps);
}

void silu_mul(Stream& s, const Array& y, const Array& a, const Array& b) {
  if (y.dim[0] == 0 || y.dim[1] == 0 || silu_mul_vector(s, y, a, b)) return;
  const dim3 grid(static_cast<unsigned>(y.dim[0]), static_cast<unsigned>(ceil_div(y.dim[1], kThreads * 4)));
  launch_early(silu_mul_kernel, "silu_mul", grid, kThreads, 0, s, y, a, b);
}

void quantize(Stream& s, std::uint8_t* codes, float* scales, const Array& x, bool power_of_two) {
  const i64 items = x.dim[0] * (x.dim[1] / 128);
  if (items == 0) return;
  launch_early(quantize_kernel, "quantize", static_cast<unsigned>(ceil_div(items, 8)), 256, 0, s, codes, scales, x,
               power_of_two);
}

void dequantize(Stream& s, const Array& y, const Matrix& w) {
  if (w.out == 0) return;
  launch(dequantize_kernel, {"dequantize", static_cast<unsigned>(w.out), kThreads}, s, y, w);
}

}  // namespace fathom::cuda
