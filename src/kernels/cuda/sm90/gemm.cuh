// Products of many rows on Hopper (swap-AB): y^T = w x^T, so that the outputs are the 64 fixed rows of an instruction
// and the number of tokens its free width. A tile is 128 outputs x 32 to 256 tokens: experts with few rows waste
// little.
//
// A persistent block has a producer, one thread that copies tiles of w and x through a ring in shared memory, and two
// warpgroups of 64 outputs each that multiply. Blocks come in pairs with neighbouring outputs and the same tokens; each
// loads half of the tokens' tile for both. Sums go out through shared memory, transposed back to one row a token.
#pragma once

#include <type_traits>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/sm90/gemm_epilogue.cuh"
#include "kernels/cuda/sm90/mainloop.cuh"
#include "kernels/cuda/sm90/pipeline.cuh"
#include "kernels/cuda/sm90/tile_map.h"

namespace fathom::cuda {

// A stage of the ring: w, x, and the tokens' scales of codes. How many bytes x has, and so how many stages there are,
// depends on the widest tile of the launch. Behind the ring: 4096 bytes a warpgroup where sums are transposed,
// barriers, and the tiles before each group.
template <Kind kKind>
struct Ring {
  static constexpr bool kFp8 = kKind == Kind::fp8, kMixed = kKind == Kind::mixed;
  static constexpr int kIn = kFp8 || kMixed ? 128 : 64;  // inner entries of a stage
  static constexpr int kMaxTokens = kFp8 ? 128 : kMixed ? 192 : 256;
  static constexpr int kWeights = 16384, kToken = kMixed ? 256 : 128, kScales = kFp8 ? 1024 : 0, kMaxStages = 12;

  static constexpr int stage_bytes(int most) { return kWeights + most * kToken + kScales; }
  static constexpr int rest_bytes(int groups) { return 2 * 4096 + 16 * kMaxStages + 4 * (groups + 1) + 1024; }
};

// Where a thread of the kernel stands in the ring: the Pipe of main loops.
template <Kind kKind, int kPair>
struct Block {
  std::uint32_t memory, barriers;  // shared addresses; the first is a multiple of 1024
  const int* first;
  int rank, stages, stage_bytes;
  const GemmPlan& p;
  RingSlot slot = {};
  std::uint32_t last = 0;  // the empty barrier of the stage before

  __device__ int first_step() const { return 0; }
  __device__ int end_step() const { return p.steps; }
  __device__ std::uint32_t weights() const { return memory + slot.stage * stage_bytes; }
  __device__ std::uint32_t tokens() const { return weights() + Ring<kKind>::kWeights; }
  __device__ std::uint32_t full() const { return full_barrier(barriers, slot); }
  __device__ std::uint32_t empty() const { return empty_barrier(barriers, slot); }
  __device__ void wait() const { barrier_wait(full(), slot.parity); }
  __device__ void advance() {
    last = empty();
    slot.next(stages);
  }
  // By whole warps: this warp no longer reads the stage whose empty barrier is given.
  __device__ void leave(std::uint32_t empty) const {
    const int lane = threadIdx.x % 32;
    if constexpr (kPair == 1) {
      if (lane == 0) barrier_arrive(empty);
    } else if (lane < kPair) {
      barrier_arrive_at(empty, lane);
    }
  }
  __device__ void release(int) const { leave(last); }
  __device__ void drain() const { leave(last); }
};

template <Kind kKind, int kPair>
__device__ void produce(Block<kKind, kPair>& b, const Maps& maps, const GemmPlan& p) {
  using R = Ring<kKind>;
  for (int t = blockIdx.x / kPair; t < b.first[p.groups]; t += gridDim.x / kPair) {
    const GemmTile tile = find_tile(p, b.first, t, b.rank, kPair);
    const int row = tile.group * p.w_rows, head = tile.group * p.x_head;
    for (int k = 0; k < p.steps; ++k) {
      barrier_wait(b.empty(), b.slot.parity ^ 1);
      barrier_expect(b.full(), R::kWeights + tile.width * R::kToken + (R::kFp8 ? kScaleRows * 4 : 0));
      const int in = k * R::kIn;
      if constexpr (kKind == Kind::transposed) {  // 128 outputs are one matrix [in, 128]
        const int from = tile.out / 128 * p.w_rows + in;
        copy_tile(b.weights(), maps.w, b.full(), 0, from);
        copy_tile(b.weights() + 8192, maps.w, b.full(), 64, from);
      } else {
        copy_tile(b.weights(), maps.w, b.full(), in, row + tile.out);
      }
      const std::uint32_t tokens = b.weights() + R::kWeights;
      for (int n = b.rank * 32; n < tile.width; n += kPair * 32)
        for (int half = 0; half < (R::kMixed ? 2 : 1); ++half) {
          const std::uint32_t to = tokens + half * p.most * 128 + n * 128;
          if constexpr (kPair == 1)
            copy_tile(to, maps.x, b.full(), in + half * 64, head, tile.begin + n);
          else
            copy_tile_to_all(to, maps.x, b.full(), in + half * 64, head, tile.begin + n, (1 << kPair) - 1);
        }
      if constexpr (R::kFp8) copy_tile(tokens + p.most * 128, maps.scales, b.full(), tile.begin / 4 * 4, k);
      b.slot.next(b.stages);
    }
  }
}

// Calls issue(Mma<width>, the first sums of d): only the instruction differs from width to width.
template <int kWidth, typename F>
__device__ __forceinline__ void by_width(int width, float (&d)[kWidth / 2], const F& issue) {
  const auto with = [&](auto mma, auto count) { issue(mma, reinterpret_cast<float(&)[decltype(count)::value]>(d)); };
  if (width == kWidth) return with(Mma<kWidth>{}, std::integral_constant<int, kWidth / 2>{});
  if constexpr (kWidth > 192) {
    if (width == 224) return with(Mma<224>{}, std::integral_constant<int, 112>{});
    if (width == 192) return with(Mma<192>{}, std::integral_constant<int, 96>{});
  }
  if (width == 160) return with(Mma<160>{}, std::integral_constant<int, 80>{});
  if (width == 128) return with(Mma<128>{}, std::integral_constant<int, 64>{});
  if (width == 96) return with(Mma<96>{}, std::integral_constant<int, 48>{});
  if (width == 64) return with(Mma<64>{}, std::integral_constant<int, 32>{});
  with(Mma<32>{}, std::integral_constant<int, 16>{});
}

// Codes on both sides, with tokens as the rows: a thread then needs the scales of two tokens only. The sums of 128
// inner entries are scaled in float32, since the tensor cores' own sums of e4m3 products keep few bits.
template <Kind kKind, int kPair>
__device__ void multiply_fp8(Block<kKind, kPair>& b, const GemmPlan& p, const GemmTile& tile, std::uint32_t buffer) {
  const int group = threadIdx.x / 128, token = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  const std::uint32_t of_tokens =
      Ring<kKind>::kWeights + p.most * 128 + (tile.begin % 4 + static_cast<std::uint32_t>(token)) * 4;
  BlockScales scales(p.scales_of(tile), p.scale_columns);
  float sum[64] = {};
  const bool idle = group * 64 >= tile.rows;  // this warpgroup has no tokens
  for (int k = 0; k < p.steps; ++k) {
    const float scale = scales.at(k);
    b.wait();
    if (!idle) {
      const std::uint64_t w = tile_descriptor(b.weights()),
                          x = tile_descriptor(b.weights() + Ring<kKind>::kWeights + group * 8192);
      float d[64], low, high;
      mma_begin();
#pragma unroll
      for (int i = 0; i < 4; ++i) Mma<128>::e4m3(d, x + i * 2, w + i * 2, i > 0);
      mma_commit();
      asm volatile("ld.shared.f32 %0, [%1];" : "=f"(low) : "r"(b.weights() + of_tokens));
      asm volatile("ld.shared.f32 %0, [%1];" : "=f"(high) : "r"(b.weights() + of_tokens + 32));
      low *= scale, high *= scale;
      mma_wait<0>();
      hold(d);
      b.leave(b.empty());
#pragma unroll
      for (int i = 0; i < 64; ++i) sum[i] += (i / 2 % 2 == 0 ? low : high) * d[i];
    } else {
      b.leave(b.empty());
    }
    b.slot.next(b.stages);
  }
  if (!idle) save_rows(sum, p, tile, buffer);
}

template <Kind kKind, int kPair, int kWidth>
__device__ void multiply(Block<kKind, kPair>& b, const GemmPlan& p, const GemmTile& tile, std::uint32_t buffer) {
  if constexpr (kKind == Kind::fp8) {
    multiply_fp8<kKind, kPair>(b, p, tile, buffer);
  } else {
    float d[kWidth / 2] = {}, unit = 1;
    const auto issue = [&](const auto& f) { by_width<kWidth>(tile.width, d, f); };
    if constexpr (kKind == Kind::mixed)
      unit = mainloop_mixed(b, BlockScales(p.scales_of(tile), p.scale_columns), p.most * 8, d, issue);
    else
      mainloop_bf16<kKind == Kind::transposed>(b, d, issue);
    save<kWidth>(d, p, tile, unit, buffer);
  }
}

template <Kind kKind, int kPair>
__global__ void __launch_bounds__(384, 1)
    sm90_gemm_kernel(const __grid_constant__ Maps maps, const __grid_constant__ GemmPlan p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using R = Ring<kKind>;
  extern __shared__ __align__(1024) char ring_memory[];
  char* memory = ring_memory + (1024 - shared_address(ring_memory) % 1024) % 1024;
  char* buffers = memory + p.stages * p.stage_bytes;
  auto* first = reinterpret_cast<int*>(buffers + 2 * 4096 + 16 * R::kMaxStages);
  Block<kKind, kPair> b{shared_address(memory),
                        shared_address(buffers + 2 * 4096),
                        first,
                        kPair == 1 ? 0 : cluster_rank(),
                        p.stages,
                        p.stage_bytes,
                        p};
  if (threadIdx.x == 0) init_ring(b.barriers, p.stages, 8 * kPair);
  if (threadIdx.x < 32) count_tiles(p, first, kPair);
  __syncthreads();
  if constexpr (kPair > 1) cluster_sync();
  // 504 registers for three warpgroups: what they start with.
  if (threadIdx.x >= 256) {
    fewer_registers<R::kMixed ? 24 : 40>();
    if (threadIdx.x == 256) produce(b, maps, p);
  } else {
    more_registers<R::kMixed ? 240 : 232>();
    const std::uint32_t buffer = shared_address(buffers) + threadIdx.x / 128 * 4096;
    for (int t = blockIdx.x / kPair; t < first[p.groups]; t += gridDim.x / kPair) {
      const GemmTile tile = find_tile(p, first, t, b.rank, kPair);
      multiply<kKind, kPair, R::kMaxTokens>(b, p, tile, buffer);
    }
  }
  __syncwarp();
  if constexpr (kPair > 1) cluster_sync();  // the other block still signals this one's barriers
#endif
}

template <Kind kKind, int kPair>
void launch_sm90_gemm(Stream& s, const Maps& maps, GemmPlan p) {
  using R = Ring<kKind>;
  p.stage_bytes = R::stage_bytes(p.most);
  p.stages = min((kSharedBytes - R::rest_bytes(p.groups)) / p.stage_bytes, R::kMaxStages);
  const Launch wanted{
      .name = "sm90_gemm",
      .grid = static_cast<unsigned>(s.device.multiprocessors / kPair * kPair),
      .block = 384,
      .shared = static_cast<std::size_t>(p.stages * p.stage_bytes + R::rest_bytes(p.groups)),
      .cluster = kPair,
  };
  launch(sm90_gemm_kernel<kKind, kPair>, wanted, s, maps, p);
}

}  // namespace fathom::cuda
