// The chosen experts as lists in device memory.
#pragma once

#include "kernels/cuda/moe/route.cuh"

namespace fathom::cuda {

// Whether this block is the last of `blocks` to come here; it sees what the others wrote before. Leaves a zero.
__device__ inline bool last_of(std::int32_t* counter, int blocks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(counter, 1) == blocks - 1;
    if (last) *counter = 0;
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}

__host__ __device__ inline int chosen_at_most(const MoeArgs& p) {
  const i64 choices = static_cast<i64>(p.tokens) * p.route.top_k;
  return static_cast<int>(choices < p.w1.count ? choices : p.w1.count);
}

// Bytes of shared memory that list_experts needs: a counter an expert.
__host__ __device__ inline std::size_t list_bytes(const MoeArgs& p) {
  return static_cast<std::size_t>((p.w1.count + 31) / 32 * 32) * sizeof(int);
}

// From the chosen indices to SmallMoe::experts and choices; one block.
__device__ inline void list_experts(const MoeArgs& p, int* counts) {
  const int experts = (static_cast<int>(p.w1.count) + 31) / 32 * 32, choices = p.tokens * p.route.top_k,
            most = chosen_at_most(p), lane = threadIdx.x % 32;
  for (int e = threadIdx.x; e < experts; e += blockDim.x) counts[e] = 0;
  __syncthreads();
  const auto local = [&](int i) { return __ldcg(p.route.indices + i) - static_cast<int>(p.first); };
  const auto here = [&](int e) { return e >= 0 && e < p.w1.count; };
  for (int i = threadIdx.x; i < choices; i += blockDim.x)
    if (const int e = local(i); here(e)) atomicAdd(&counts[e], 1);
  __syncthreads();
  if (threadIdx.x < 32) {  // each count becomes the place of its expert's first choice
    int rank = 0, total = 0;
    for (int base = 0; base < experts; base += 32) {
      const int count = counts[base + lane];
      int sum = count;
      for (int step = 1; step < 32; step *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, sum, step);
        if (lane >= step) sum += other;
      }
      const unsigned active = __ballot_sync(0xffffffffu, count > 0);
      const int first = total + sum - count;
      if (count > 0) p.experts[rank + __popc(active & ((1u << lane) - 1))] = {base + lane, first, count, 0};
      counts[base + lane] = first;
      rank += __popc(active);
      total += __shfl_sync(0xffffffffu, sum, 31);
    }
    for (int i = rank + lane; i < most; i += 32) p.experts[i] = {-1, 0, 0, 0};
  }
  __syncthreads();
  // The order of an expert's choices is of no consequence: each is a column of its own.
  for (int i = threadIdx.x; i < choices; i += blockDim.x)
    if (const int e = local(i); here(e)) p.choices[atomicAdd(&counts[e], 1)] = i;
}

}  // namespace fathom::cuda
