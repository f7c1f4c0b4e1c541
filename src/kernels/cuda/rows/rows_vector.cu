// Rows of many tokens, 16 bytes a thread at a time. The arithmetic is that of rows.cu and experts.cu.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/rows/rows.h"

namespace fathom::cuda {
namespace {

constexpr int kThreads = 256;
constexpr i64 kRows = 17;  // of fewer, decode's kernels make most themselves (gemv_input.cuh)

// Eight numbers of bf16 as float32, and back.
struct Eight {
  float v[8];
};

__device__ inline Eight unpack(uint4 bits) {
  const std::uint32_t pairs[4] = {bits.x, bits.y, bits.z, bits.w};
  Eight e;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    e.v[2 * i] = __uint_as_float(pairs[i] << 16);
    e.v[2 * i + 1] = __uint_as_float(pairs[i] & 0xffff0000u);
  }
  return e;
}

__device__ inline Eight load_eight(const void* data, i64 at) {
  return unpack(*reinterpret_cast<const uint4*>(static_cast<const std::uint16_t*>(data) + at));
}

__device__ inline void store_eight(void* data, i64 at, const Eight& e) {
  std::uint32_t pairs[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(e.v[2 * i], e.v[2 * i + 1]);
    pairs[i] = *reinterpret_cast<const std::uint32_t*>(&pair);
  }
  *reinterpret_cast<uint4*>(static_cast<std::uint16_t*>(data) + at) = {pairs[0], pairs[1], pairs[2], pairs[3]};
}

// x float32, y bf16. A row is read once: up to 8 x 4 numbers stay in registers.
__global__ void rms_norm_vector_kernel(Array y, Array x, const float* weight, float eps) {
  let_next_start();
  wait_for_previous();
  __shared__ float shared[32];
  const int width = static_cast<int>(x.dim[1]);
  const float* row = static_cast<const float*>(x.data) + blockIdx.x * x.stride[0];
  float4 v[8];
  float sum = 0;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int i = (j * kThreads + static_cast<int>(threadIdx.x)) * 4;
    if (i >= width) break;
    v[j] = *reinterpret_cast<const float4*>(row + i);
    sum += v[j].x * v[j].x + v[j].y * v[j].y + v[j].z * v[j].z + v[j].w * v[j].w;
  }
  const float factor = 1.0f / sqrtf(block_sum(sum, shared) / static_cast<float>(width) + eps);
  auto* to = static_cast<std::uint16_t*>(y.data) + blockIdx.x * y.stride[0];
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int i = (j * kThreads + static_cast<int>(threadIdx.x)) * 4;
    if (i >= width) break;
    const float4 w = *reinterpret_cast<const float4*>(weight + i);
    const __nv_bfloat162 low = __floats2bfloat162_rn(v[j].x * factor * w.x, v[j].y * factor * w.y),
                         high = __floats2bfloat162_rn(v[j].z * factor * w.z, v[j].w * factor * w.w);
    *reinterpret_cast<uint2*>(to + i) = {*reinterpret_cast<const std::uint32_t*>(&low),
                                         *reinterpret_cast<const std::uint32_t*>(&high)};
  }
}

__global__ void silu_mul_vector_kernel(Array y, Array a, Array b, i64 pieces) {
  let_next_start();
  wait_for_previous();
  const i64 item = blockIdx.x * static_cast<i64>(kThreads) + threadIdx.x;
  if (item >= y.dim[0] * pieces) return;
  const i64 row = item / pieces, i = item % pieces * 8;
  Eight gate = load_eight(a.data, row * a.stride[0] + i);
  const Eight up = load_eight(b.data, row * b.stride[0] + i);
#pragma unroll
  for (int k = 0; k < 8; ++k) gate.v[k] = gate.v[k] / (1.0f + expf(-gate.v[k])) * up.v[k];
  store_eight(y.data, row * y.stride[0] + i, gate);
}

// y float32, rows bf16.
__global__ void combine_vector_kernel(Array y, Array rows, const std::int32_t* places, const float* weights, int top_k,
                                      i64 pieces) {
  let_next_start();
  wait_for_previous();
  const i64 item = blockIdx.x * static_cast<i64>(kThreads) + threadIdx.x;
  if (item >= y.dim[0] * pieces) return;
  const i64 t = item / pieces, i = item % pieces * 8;
  Eight sum{};
#pragma unroll 4
  for (int k = 0; k < top_k; ++k) {
    const i64 place = places[t * top_k + k];
    if (place < 0) continue;
    const float weight = weights[t * top_k + k];
    const Eight row = load_eight(rows.data, place * rows.stride[0] + i);
#pragma unroll
    for (int e = 0; e < 8; ++e) sum.v[e] += weight * row.v[e];
  }
  auto* to = reinterpret_cast<float4*>(static_cast<float*>(y.data) + t * y.stride[0] + i);
  to[0] = {sum.v[0], sum.v[1], sum.v[2], sum.v[3]};
  to[1] = {sum.v[4], sum.v[5], sum.v[6], sum.v[7]};
}

// The same codes with scales [blocks, stride]. Sixteen lanes a block of 128 entries, 16 bytes of bf16 a lane.
__global__ void quantize_by_column_kernel(std::uint8_t* codes, float* scales, i64 stride, Array x, bool power_of_two) {
  let_next_start();
  wait_for_previous();
  const i64 blocks = x.dim[1] / 128, item = blockIdx.x * static_cast<i64>(blockDim.x / 16) + threadIdx.x / 16;
  const i64 row = item / blocks, block = item % blocks;
  const bool there = item < x.dim[0] * blocks;
  const int lane = threadIdx.x % 16;
  float values[8] = {}, amax = 1e-4f;
  if (there) {
    const uint4 v = *reinterpret_cast<const uint4*>(static_cast<const std::uint16_t*>(x.data) + row * x.stride[0] +
                                                    block * 128 + lane * 8);
    const std::uint32_t pairs[4] = {v.x, v.y, v.z, v.w};
    for (int k = 0; k < 4; ++k) {
      values[2 * k] = __uint_as_float(pairs[k] << 16);
      values[2 * k + 1] = __uint_as_float(pairs[k] & 0xffff0000u);
    }
    for (const float value : values) amax = max_or_nan(amax, fabsf(value));
  }
  for (int mask = 8; mask > 0; mask >>= 1) amax = max_or_nan(amax, __shfl_xor_sync(0xffffffffu, amax, mask));
  if (!there) return;
  const float scale = activation_scale(amax, power_of_two);
  std::uint32_t packed[2] = {};
  for (int k = 0; k < 8; k += 2)
    packed[k / 4] |= two_e4m3(__fdiv_rn(values[k], scale), __fdiv_rn(values[k + 1], scale)) << 8 * (k % 4);
  reinterpret_cast<uint2*>(codes)[(row * x.dim[1] + block * 128) / 8 + lane] = {packed[0], packed[1]};
  if (lane == 0) scales[block * stride + row] = scale;
}

bool aligned(const Array& x) {
  const i64 step = x.type == Type::f32 ? 4 : 8;
  return reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 && x.stride[0] % step == 0;
}

}  // namespace

bool rms_norm_vector(Stream& s, const Array& y, const Array& x, const float* weight, float eps) {
  if (x.dim[0] < kRows || x.type != Type::f32 || y.type != Type::bf16 || x.dim[1] % 4 != 0 ||
      x.dim[1] > 8 * 4 * kThreads || !aligned(x) || !aligned(y) || reinterpret_cast<std::uintptr_t>(weight) % 16 != 0)
    return false;
  launch_early(rms_norm_vector_kernel, "rms_norm_vector", static_cast<unsigned>(x.dim[0]), kThreads, 0, s, y, x, weight,
               eps);
  return true;
}

bool silu_mul_vector(Stream& s, const Array& y, const Array& a, const Array& b) {
  if (y.dim[0] < kRows || y.type != Type::bf16 || a.type != Type::bf16 || b.type != Type::bf16 || y.dim[1] % 8 != 0 ||
      !aligned(y) || !aligned(a) || !aligned(b))
    return false;
  const i64 pieces = y.dim[1] / 8;
  launch_early(silu_mul_vector_kernel, "silu_mul_vector", static_cast<unsigned>(ceil_div(y.dim[0] * pieces, kThreads)),
               kThreads, 0, s, y, a, b, pieces);
  return true;
}

bool combine_vector(Stream& s, const Array& y, const Array& rows, const std::int32_t* places, const float* weights,
                    int top_k) {
  if (y.dim[0] < kRows || y.type != Type::f32 || rows.type != Type::bf16 || y.dim[1] % 8 != 0 || !aligned(y) ||
      !aligned(rows))
    return false;
  const i64 pieces = y.dim[1] / 8;
  launch_early(combine_vector_kernel, "combine_vector", static_cast<unsigned>(ceil_div(y.dim[0] * pieces, kThreads)),
               kThreads, 0, s, y, rows, places, weights, top_k, pieces);
  return true;
}

void quantize_by_column(Stream& s, std::uint8_t* codes, float* scales, i64 stride, const Array& x, bool power_of_two) {
  const i64 items = x.dim[0] * (x.dim[1] / 128);
  if (items == 0) return;
  launch_early(quantize_by_column_kernel, "quantize_by_column", static_cast<unsigned>(ceil_div(items, 16)), 256, 0, s,
               codes, scales, stride, x, power_of_two);
}

}  // namespace fathom::cuda
