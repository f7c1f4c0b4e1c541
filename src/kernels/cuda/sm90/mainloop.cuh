// The main loops of products: the scales of FP8 weights, codes in shared memory as
// the registers of an instruction.
#pragma once

#include "kernels/cuda/linear/kind.h"
#include "kernels/cuda/sm90/instructions.cuh"

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

// Main loops over a Pipe, which is a block's ring: first_step() and end_step() of the inner dimension, wait() for the
// current stage, its weights() and tokens(), advance() to the next, release(k) of the stage before the current one,
// which is step k's, and drain() of the last. issue(f) calls f(instruction, sums).

// bf16 from shared memory on both sides. kStep: of the weights' descriptor, for 16 inner entries.
template <bool kTransposed, typename Pipe, int kSums, typename Issue>
__device__ __forceinline__ void mainloop_bf16(Pipe& pipe, float (&d)[kSums], const Issue& issue) {
  constexpr int kStep = kTransposed ? 16 * 128 / 16 : 32 / 16;
  for (int k = pipe.first_step(); k < pipe.end_step(); ++k) {
    pipe.wait();
    const std::uint64_t w = tile_descriptor(pipe.weights() + threadIdx.x / 128 * 8192),
                        x = tile_descriptor(pipe.tokens());
    issue([&](auto mma, auto& sums) {
      mma_begin();
#pragma unroll
      for (int i = 0; i < 4; ++i) decltype(mma)::template bf16<kTransposed, 0>(sums, w + i * kStep, x + i * 2, true);
      mma_commit();  // here: at the branches' end the compiler would add a group of its own
    });
    if (k > pipe.first_step()) {
      mma_wait<1>();
      pipe.release(k - 1);
    }
    pipe.advance();
  }
  mma_wait<0>();
  hold(d);
  pipe.drain();
}

// Codes of w widened in registers, exactly, while the products of the last 128 inner entries are on their way. The sums
// are kept in units of the current block's scale; the last is returned. `half`: from the first 64 entries of the tokens
// to the others, in the descriptor.
template <typename Pipe, int kSums, typename Issue>
__device__ __forceinline__ float mainloop_mixed(Pipe& pipe, BlockScales scales, int half, float (&d)[kSums],
                                                const Issue& issue) {
  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
  const std::uint32_t place = row * 128 + lane % 4 * 2, swizzle = row % 8;
  float unit = 1;
  for (int k = pipe.first_step(); k < pipe.end_step(); ++k) {
    const float scale = scales.at(k - pipe.first_step());
    const std::uint32_t factor = counts(scale) ? kWidenE4m3 : 0;
    const float ratio = counts(scale) ? unit * __frcp_rn(scale) : 1;
    if (counts(scale)) unit = scale;
    pipe.wait();
    const std::uint32_t from = pipe.weights() + place;
    std::uint32_t low[4][4], high[4][4];
    const std::uint64_t x = tile_descriptor(pipe.tokens());
    mma_wait<1>();  // the first half of the last stage: its registers are free
#pragma unroll
    for (int i = 0; i < 4; ++i) widen(low[i], from + (i ^ swizzle) * 16, factor);
    mma_wait<0>();
    hold(d);
    if (k > pipe.first_step()) pipe.release(k - 1);
#pragma unroll
    for (int i = 0; i < kSums; ++i) d[i] *= ratio;
    hold(d);
    issue([&](auto mma, auto& sums) {
      mma_begin();
#pragma unroll
      for (int i = 0; i < 4; ++i) decltype(mma)::template bf16_registers<0>(sums, low[i], x + i * 2, true);
      mma_commit();
#pragma unroll
      for (int i = 0; i < 4; ++i) widen(high[i], from + ((i + 4) ^ swizzle) * 16, factor);
      mma_begin();
#pragma unroll
      for (int i = 0; i < 4; ++i) decltype(mma)::template bf16_registers<0>(sums, high[i], x + half + i * 2, true);
      mma_commit();
    });
    pipe.advance();
  }
  mma_wait<0>();
  hold(d);
  pipe.drain();
  return unit;
}

}  // namespace fathom::cuda
