// Device helpers shared by the kernels: conversions, loads of either activation type, reductions, launches.
#pragma once

#include <cuda_bf16.h>

#include "base/numeric.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/params.h"

namespace fathom::cuda {

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

// The sequence of a token, and its number of visible keys; -1 and 0 for padding after the last sequence.
struct Span {
  int sequence, keys;
};
__device__ inline Span span_of(const Sequences& seqs, int token) {
  int low = 0, high = seqs.count;  // the first s with seq_starts[s + 1] > token
  while (low < high) {
    const int middle = (low + high) / 2;
    if (seqs.seq_starts[middle + 1] > token)
      high = middle;
    else
      low = middle + 1;
  }
  if (low == seqs.count) return {-1, 0};
  return {low, min(seqs.positions[token] + 1, seqs.context_lens[low])};
}

// Row of the cache that holds position `position` of a sequence.
__device__ inline i64 cache_slot(const Sequences& seqs, const Cache& cache, int sequence, int position) {
  const std::int32_t block = seqs.block_tables[sequence * seqs.table_stride + position / cache.block_size];
  return static_cast<i64>(block) * cache.block_size + position % cache.block_size;
}

}  // namespace fathom::cuda
