// What the main loops of products share: the scales of FP8 weights, and codes in shared memory as
// the registers of an instruction.
#pragma once

#include "kernels/cuda/sm90/instructions.cuh"
#include "kernels/cuda/sm90/kind.h"

namespace fathom::cuda {

// The scales of one row of w's blocks, 32 a load: a load for each block would be waited for before its products.
class BlockScales {
 public:
  __device__ BlockScales(const float* from, int count) : from_(from), count_(count) {}
  // Of block k; k goes up from 0, by whole warps.
  __device__ float at(int k) {
    const int lane = threadIdx.x % 32;
    if (k % 32 == 0) held_ = k + lane < count_ ? __ldg(from_ + k + lane) : 0;
    return __shfl_sync(0xffffffffu, held_, k % 32);
  }

 private:
  const float* from_;
  int count_;
  float held_ = 0;
};

// Two neighbouring codes at `address` as a pair of bf16.
__device__ inline std::uint32_t widen_pair(std::uint32_t address, std::uint32_t factor) {
  std::uint16_t codes;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(codes) : "r"(address) : "memory");
  const std::uint32_t spread = __byte_perm(codes, 0, 0x1404),
                      bits = (spread & 0x80008000u) | (spread >> 4 & 0x07f007f0u);
  std::uint32_t value;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(value) : "r"(bits), "r"(factor));  // the move left a factor of 2^-120
  return value;
}

// Rows g and g + 8, 16 codes each, from `address` on, as the instruction wants them.
__device__ inline void widen(std::uint32_t (&a)[4], std::uint32_t address, std::uint32_t factor) {
  a[0] = widen_pair(address, factor);
  a[1] = widen_pair(address + 8 * 128, factor);
  a[2] = widen_pair(address + 8, factor);
  a[3] = widen_pair(address + 8 * 128 + 8, factor);
}

}  // namespace fathom::cuda
