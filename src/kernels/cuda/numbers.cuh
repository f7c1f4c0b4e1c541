// Numbers in kernels: loads and stores of either activation type, conversions, sums over a warp or a block.
#pragma once

#include <cuda_bf16.h>

#include "base/numeric.h"
#include "kernels/cuda/array.h"
#include "kernels/cuda/launch.h"

namespace fathom::cuda {

constexpr int kUnit = 128;  // inner entries of a unit: also the width of an FP8 scale's block

inline int ceil_div(i64 a, i64 b) { return static_cast<int>((a + b - 1) / b); }

__device__ inline float load(const void* data, Type type, i64 i) {
  return type == Type::f32 ? static_cast<const float*>(data)[i] : bf16_to_float(static_cast<const bf16_bits*>(data)[i]);
}

__device__ inline void store(void* data, Type type, i64 i, float value) {
  if (type == Type::f32)
    static_cast<float*>(data)[i] = value;
  else
    static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(value);
}

__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int mask = 16; mask > 0; mask >>= 1) value += __shfl_xor_sync(0xffffffffu, value, mask);
  return value;
}

__device__ inline float warp_max(float value) {
#pragma unroll
  for (int mask = 16; mask > 0; mask >>= 1) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, mask));
  return value;
}

// Sum over a block of up to 1024 threads; every thread gets it. `shared` has 32 floats.
__device__ inline float block_sum(float value, float* shared) {
  const int warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
  value = warp_sum(value);
  __syncthreads();  // a previous sum may still be read
  if (threadIdx.x % 32 == 0) shared[warp] = value;
  __syncthreads();
  float total = 0;
  for (int w = 0; w < warps; ++w) total += shared[w];
  return total;
}

// A pair of bf16 by which widened codes are multiplied: 2^120.
constexpr std::uint32_t kWidenE4m3 = 0x7b807b80u;

// Four e4m3 codes as two pairs of bf16, exactly: the bits move into place, which leaves a factor of 2^-120. The codes
// of NaN become +-480; to tell them apart would cost a third more instructions, and no weight that is loaded has them.
__device__ inline void widen_e4m3(std::uint32_t codes, std::uint32_t& low, std::uint32_t& high,
                                  std::uint32_t factor = kWidenE4m3) {
  const auto pair = [factor](std::uint32_t spread) {
    const std::uint32_t bits = (spread & 0x80008000u) | (spread >> 4 & 0x07f007f0u);
    std::uint32_t value;
#if __CUDA_ARCH__ >= 900
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(value) : "r"(bits), "r"(factor));
#else  // the same product, plus -0
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(value) : "r"(bits), "r"(factor), "r"(0x80008000u));
#endif
    return value;
  };
  low = pair(__byte_perm(codes, 0, 0x1404));
  high = pair(__byte_perm(codes, 0, 0x3424));
}

// Whether a block of weights with this scale counts in kernels that keep sums in units of the current scale: going over
// to the unit of a scale near 2^-127 would make them infinite. The largest weight of a block that does not is 2^-55.
__device__ inline bool counts(float scale) { return !(fabsf(scale) < 0x1p-64f); }

__device__ inline std::uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

__device__ inline std::uint32_t two_e4m3(float low, float high) {
#if __CUDA_ARCH__ >= 890
  std::uint16_t codes;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
  return codes;
#else
  return float_to_e4m3(low) | static_cast<std::uint32_t>(float_to_e4m3(high)) << 8;
#endif
}

// The larger one; NaN if one is.
__device__ inline float max_or_nan(float a, float b) {
  float value;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(value) : "f"(a), "f"(b));
  return value;
}

// The scale of 128 activations. That of any NaN among them is NaN, and so are all products with them: kernels that
// widen codes do not know the code of NaN.
__device__ inline float activation_scale(float amax, bool power_of_two) {
  const float scale = __fmul_rn(amax, 1.0f / kE4m3Max);
  return power_of_two && !isnan(scale) ? round_up_to_power_of_two(scale) : scale;
}

// Four values as e4m3 codes of a unit that a warp holds, its scale returned; the arithmetic is that of
// quant/fp8_block.cc, quantize_activation.
__device__ inline float quantize_unit(const float (&values)[4], bool power_of_two, std::uint32_t& codes) {
  float amax = 1e-4f;
  for (const float value : values) amax = max_or_nan(amax, fabsf(value));
#pragma unroll
  for (int mask = 16; mask > 0; mask >>= 1) amax = max_or_nan(amax, __shfl_xor_sync(0xffffffffu, amax, mask));
  const float scale = activation_scale(amax, power_of_two);
  codes = two_e4m3(__fdiv_rn(values[0], scale), __fdiv_rn(values[1], scale)) |
          two_e4m3(__fdiv_rn(values[2], scale), __fdiv_rn(values[3], scale)) << 16;
  return scale;
}

__device__ inline float silu(float x) { return x / (1.0f + __expf(-x)); }

}  // namespace fathom::cuda
