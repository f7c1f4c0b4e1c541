// Split-K products of a few dozen rows on Hopper (swap-AB): y^T = w x^T at the speed of memory. A block has up to 128
// outputs and all tokens: stages of both come by bulk copies (TMA) to a ring in shared memory, and two warpgroups of 64
// outputs multiply. Weights are on their way before the previous kernel has ended, and mostly two blocks share a
// multiprocessor: one streams while another begins or ends. A thread of the first warp starts the copies: a warp for
// them alone would take registers from all others.
//
// Where outputs are few, the blocks of a cluster share the inner dimension of one tile: each adds up some tokens' sums
// of all of them, in order, from their shared memory. So nothing depends on which block is done first, and no memory is
// needed between blocks.
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/sm90/mainloop.cuh"
#include "kernels/cuda/sm90/pipeline.cuh"
#include "kernels/cuda/sm90/splitk_kernels.h"

namespace fathom::cuda {

constexpr int kSplitKThreads = 256;

struct SplitKTile {
  int part, out;  // outputs from `out` on
};

__device__ inline SplitKTile splitk_tile(const SplitKPlan& p, int tile) {
  int part = 0;
  while (part + 1 < p.parts && tile >= p.part[part].tiles) tile -= p.part[part++].tiles;
  return {part, tile * p.outputs};
}

// The ring of a block. A stage: weights, tokens (two halves of 64 entries where they are twice as wide as the weights),
// the tokens' scales.
template <Kind kKind, int kWidth>
struct SplitKRing {
  static constexpr int kIn = kKind == Kind::bf16 ? 64 : 128, kHalves = kKind == Kind::mixed ? 2 : 1,
                       kTokens = kWidth * 128 * kHalves, kScales = kKind == Kind::fp8 ? kWidth * 4 : 0;
  const SplitKMaps& maps;
  const SplitKPlan& p;
  SplitKTile tile;
  std::uint32_t memory, barriers;  // shared addresses; the first is a multiple of 1024
  int begin, end;                  // steps of the inner dimension

  RingSlot slot = {}, last = {};

  __device__ int first_step() const { return begin; }
  __device__ int end_step() const { return end; }
  __device__ std::uint32_t at(const RingSlot& s) const { return memory + s.stage * p.stage_bytes; }
  __device__ std::uint32_t tokens(const RingSlot& s) const { return at(s) + p.outputs * 128; }
  __device__ std::uint32_t full(const RingSlot& s) const { return full_barrier(barriers, s); }
  __device__ std::uint32_t weights() const { return at(slot); }
  __device__ std::uint32_t tokens() const { return tokens(slot); }
  __device__ void wait() const { barrier_wait(full(slot), slot.parity); }
  __device__ void advance() {
    last = slot;
    slot.next(p.stages);
  }

  __device__ void copy_weights(const RingSlot& s, int k) const {
    barrier_expect(full(s), p.outputs * 128 + kTokens + kScales);
    copy_tile(at(s), maps.w[tile.part], full(s), k * kIn, tile.out);
  }
  __device__ void copy_tokens(const RingSlot& s, int k) const {
    for (int half = 0; half < kHalves; ++half)
      copy_tile(tokens(s) + half * kWidth * 128, maps.x, full(s), k * kIn + half * 64, 0);
    if constexpr (kKind == Kind::fp8) copy_tile(tokens(s) + kTokens, maps.scales, full(s), 0, k);
  }
  // By one thread, at first. Weights depend on no kernel before this one.
  __device__ void fill() const {
    const int count = min(p.stages, end - begin);
    for (RingSlot s; s.stage < count; ++s.stage) copy_weights(s, begin + s.stage);
    prefetch_map(maps.x);
    wait_for_previous();
    for (RingSlot s; s.stage < count; ++s.stage) copy_tokens(s, begin + s.stage);
  }
  // By whole warps: this one no longer reads step k's stage. When all have said so, the stage is filled again.
  __device__ void leave(const RingSlot& s, int k) const {
    if (threadIdx.x % 32 == 0) barrier_arrive(empty_barrier(barriers, s));
    if (threadIdx.x == 0 && k + p.stages < end) {
      barrier_wait(empty_barrier(barriers, s), s.parity);
      copy_weights(s, k + p.stages);
      copy_tokens(s, k + p.stages);
    }
    __syncwarp();
  }
  __device__ void release(int k) const { leave(last, k); }
  __device__ void drain() const {}  // nothing comes after the last stage
};

// The sums of this warpgroup's 64 outputs with all tokens: d[4 j + 2 h + e] of lane 4 g + c is output 8 h + g of its
// warp's 16, token 8 j + 2 c + e.
template <int kWidth>
using SplitKSums = float[kWidth / 2];

// Codes on both sides: the sums of 128 inner entries are scaled in float32.
template <Kind kKind, int kWidth>
__device__ void splitk_multiply_fp8(SplitKRing<kKind, kWidth>& ring, BlockScales scales, SplitKSums<kWidth>& sum) {
  constexpr int kPiece = kWidth < 64 ? kWidth : 64;
  for (int k = ring.begin; k < ring.end; ++k) {
    const float scale = scales.at(k - ring.begin);
    ring.wait();
    const std::uint32_t tokens = ring.tokens(), of_tokens = tokens + kWidth * 128 + threadIdx.x % 4 * 8;
    const std::uint64_t w = tile_descriptor(ring.weights() + threadIdx.x / 128 * 8192), x = tile_descriptor(tokens);
#pragma unroll
    for (int piece = 0; piece < kWidth / kPiece; ++piece) {
      float d[kPiece / 2];
      mma_begin();
#pragma unroll
      for (int i = 0; i < 4; ++i) Mma<kPiece>::e4m3(d, w + i * 2, x + piece * kPiece * 8 + i * 2, i > 0);
      mma_commit();
      mma_wait<0>();
      hold(d);
#pragma unroll
      for (int j = 0; j < kPiece / 8; ++j) {
        float even, odd;
        asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                     : "=f"(even), "=f"(odd)
                     : "r"(of_tokens + (piece * kPiece + j * 8) * 4)
                     : "memory");
        even *= scale, odd *= scale;
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[piece * kPiece / 2 + j * 4 + i] += (i % 2 == 0 ? even : odd) * d[j * 4 + i];
      }
    }
    ring.leave(ring.slot, k);
    ring.advance();
  }
}

// Up to four neighbouring outputs of a token.
__device__ inline float4 load_four(const SplitKPart& part, i64 at, int outs) {
  if (part.vector && outs >= 4 && part.y_type == Type::f32)
    return *reinterpret_cast<const float4*>(static_cast<const float*>(part.y) + at);
  float v[4] = {};
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (i < outs) v[i] = load(part.y, part.y_type, at + i);
  return {v[0], v[1], v[2], v[3]};
}
__device__ inline void store_four(const SplitKPart& part, i64 at, float4 v, int outs) {
  if (part.vector && outs >= 4) {
    if (part.y_type == Type::f32)
      *reinterpret_cast<float4*>(static_cast<float*>(part.y) + at) = v;
    else
      *reinterpret_cast<uint2*>(static_cast<std::uint16_t*>(part.y) + at) = {pack_bf16(v.x, v.y), pack_bf16(v.z, v.w)};
    return;
  }
  const float values[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (i < outs) store(part.y, part.y_type, at + i, values[i]);
}

// Sums of all parts of the inner dimension to y. The ring is empty by now: it holds sums [token][outputs + 4].
template <int kWidth>
__device__ void splitk_epilogue(const SplitKPlan& p, const SplitKTile& tile, std::uint32_t memory, int rank,
                                const SplitKSums<kWidth>& d) {
  constexpr int kBatch = 4;  // loads on their way together
  const SplitKPart& part = p.part[tile.part];
  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4, wide = p.outputs + 4;
  __syncthreads();  // all have read their last stage
#pragma unroll
  for (int i = 0; i < kWidth / 2; ++i) {
    const int token = i / 4 * 8 + lane % 4 * 2 + i % 2, out = row + i / 2 % 2 * 8;
    if (token < p.tokens && out < p.outputs)
      asm volatile("st.shared.f32 [%0], %1;" ::"r"(memory + (token * wide + out) * 4), "f"(d[i]) : "memory");
  }
  p.splits > 1 ? cluster_sync() : __syncthreads();
  const int each = (p.tokens + p.splits - 1) / p.splits, first = rank * each, fours = p.outputs / 4,
            items = min(each, p.tokens - first) * fours;
  for (int base = threadIdx.x; base < items; base += kBatch * kSplitKThreads) {
    float4 old[kBatch] = {};
    i64 at[kBatch];
    int outs[kBatch];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const int i = base + j * kSplitKThreads, token = first + i / fours, out = i % fours * 4;
      at[j] = token * part.y_stride + tile.out + out;
      outs[j] = i < items ? part.out - tile.out - out : 0;
      if (outs[j] <= 0) continue;
      if (p.add) old[j] = load_four(part, at[j], outs[j]);
    }
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const int i = base + j * kSplitKThreads, token = first + i / fours, out = i % fours * 4;
      if (outs[j] <= 0) continue;
      float4 all{};
      for (int s = 0; s < p.splits; ++s) {
        const float4 v = load_from(memory + (token * wide + out) * 4, s);
        all.x += v.x, all.y += v.y, all.z += v.z, all.w += v.w;
      }
      all.x += old[j].x, all.y += old[j].y, all.z += old[j].z, all.w += old[j].w;
      store_four(part, at[j], all, outs[j]);
    }
  }
}

template <Kind kKind, int kWidth>
__device__ void splitk_multiply(SplitKRing<kKind, kWidth>& ring, SplitKSums<kWidth>& d) {
  const auto issue = [&](const auto& f) { f(Mma<kWidth>{}, d); };
  if constexpr (kKind == Kind::bf16) {
    hold(d);
    mainloop_bf16<false>(ring, d, issue);
  } else {
    const SplitKPart& part = ring.p.part[ring.tile.part];
    const int columns = ring.p.scale_columns,
              row = min((ring.tile.out + static_cast<int>(threadIdx.x / 32) * 16) / 128, (part.out - 1) / 128);
    const BlockScales scales(part.w_scale + static_cast<i64>(row) * columns + ring.begin, columns - ring.begin);
    if constexpr (kKind == Kind::mixed) {
      const float unit = mainloop_mixed(ring, scales, kWidth * 8, d, issue);
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i) d[i] *= unit;
    } else {
      splitk_multiply_fp8(ring, scales, d);
    }
  }
}

// kAtOnce: blocks a multiprocessor holds.
template <Kind kKind, int kWidth, int kAtOnce>
__global__ void __launch_bounds__(kSplitKThreads, kAtOnce)
    sm90_splitk_kernel(const __grid_constant__ SplitKMaps maps, const __grid_constant__ SplitKPlan p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) char splitk_memory[];
  const std::uint32_t memory = (shared_address(splitk_memory) + 1023) / 1024 * 1024;
  const int part = p.splits == 1 ? 0 : cluster_rank();
  SplitKRing<kKind, kWidth> ring{maps,
                                 p,
                                 splitk_tile(p, static_cast<int>(blockIdx.x) / p.splits),
                                 memory,
                                 memory + p.ring_bytes,
                                 part * p.steps / p.splits,
                                 (part + 1) * p.steps / p.splits};
  let_next_start();
  if (threadIdx.x == 0) {
    init_ring(ring.barriers, p.stages, kSplitKThreads / 32);
    ring.fill();
  }
  __syncthreads();
  SplitKSums<kWidth> d = {};
  splitk_multiply(ring, d);
  wait_for_previous();  // for y
  splitk_epilogue<kWidth>(p, ring.tile, memory, part, d);
  if (p.splits > 1) cluster_sync();  // the other blocks still read this one's sums
#endif
}

template <Kind kKind, int kWidth, int kAtOnce>
void launch_splitk(Stream& s, const SplitKMaps& maps, const SplitKPlan& p) {
  launch(sm90_splitk_kernel<kKind, kWidth, kAtOnce>,
         {.name = "sm90_splitk",
          .grid = static_cast<unsigned>(p.tiles * p.splits),
          .block = kSplitKThreads,
          .shared = static_cast<std::size_t>(p.bytes),
          .early = true,
          .cluster = p.splits},
         s, maps, p);
}

template <Kind kKind>
void dispatch_splitk(Stream& s, const SplitKMaps& maps, const SplitKPlan& p, const SplitK& c) {
  if (c.width == 256) return launch_splitk<kKind, 256, 1>(s, maps, p);
  if (c.at_once == 1) {
    if (c.width == 32) return launch_splitk<kKind, 32, 1>(s, maps, p);
    if (c.width == 64) return launch_splitk<kKind, 64, 1>(s, maps, p);
    return launch_splitk<kKind, 128, 1>(s, maps, p);
  }
  if (c.width == 32) return launch_splitk<kKind, 32, 2>(s, maps, p);
  if (c.width == 64) return launch_splitk<kKind, 64, 2>(s, maps, p);
  launch_splitk<kKind, 128, 2>(s, maps, p);
}

}  // namespace fathom::cuda
