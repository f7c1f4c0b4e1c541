// Products of many rows on tensor cores: tiles of 128 rows x 256 outputs, 64 inner entries at a time, four of these in
// flight through shared memory. Sixteen warps of 64 x 32. FP8 weights stay FP8 in shared memory and become bf16, times
// their scale, in registers: that is the reference's weight_dequant without a second copy.
//
// As in gemv_mainloop.cuh a thread takes 8 neighbouring inner entries where mma.m16n8k16 wants scattered pairs.
#pragma once

#include "kernels/cuda/linear/gemv_mainloop.cuh"

namespace fathom::cuda {

constexpr int kTileRows = 128, kTileOuts = 256, kTileIn = 64, kStages = 4, kTileThreads = 512;

struct MmaPlan {
  const void* x;  // bf16 [rows, in]
  i64 x_stride;
  Matrix w;
  void* y;
  Type y_type;
  i64 y_stride;
  i64 rows;
  const std::int32_t* offsets = nullptr;   // grouped: rows of each matrix of the stack
  i64 x_head = 0, w_head = 0, y_head = 0;  // steps from head to head
  int heads = 1;
};

// The rows of one block: `rows` from `begin` on, times matrix `expert`; 0 rows: none.
struct TileRows {
  int expert, begin, rows;
};

// The n-th tile of the experts' rows. All threads of a warp take part.
__device__ inline TileRows find_tile(const std::int32_t* offsets, int experts, int n) {
  const int lane = threadIdx.x % 32;
  for (int base = 0; base < experts; base += 32) {
    const int e = base + lane;
    const int begin = e < experts ? offsets[e] : 0, end = e < experts ? offsets[e + 1] : 0;
    const int tiles = (end - begin + kTileRows - 1) / kTileRows;
    int sum = tiles;
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(0xffffffffu, sum, step);
      if (lane >= step) sum += other;
    }
    const int all = __shfl_sync(0xffffffffu, sum, 31);
    if (n < all) {
      const int owner = __ffs(static_cast<int>(__ballot_sync(0xffffffffu, n < sum))) - 1;
      const int within = n - __shfl_sync(0xffffffffu, sum - tiles, owner);
      const int first = __shfl_sync(0xffffffffu, begin, owner) + within * kTileRows;
      return {base + owner, first, min(kTileRows, __shfl_sync(0xffffffffu, end, owner) - first)};
    }
    n -= all;
  }
  return {0, 0, 0};
}

// 16-byte chunk `chunk` of a row of 128 bytes: two neighbouring rows lie in different halves of the banks, eight rows
// in all of them.
__device__ inline int swizzled(int row, int chunk) { return chunk ^ ((row & 1) << 2 | (row >> 1 & 3)); }

__device__ inline void copy_chunk(std::uint32_t to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0));
}

template <bool kFp8>
class MmaKernel {
 public:
  static constexpr int kByte = kFp8 ? 1 : 2, kRowBytes = kTileIn * 2, kOutBytes = kTileIn * kByte;
  static constexpr int kChunks = kOutBytes / 16, kCopyRows = kTileThreads / kChunks, kCopies = kTileOuts / kCopyRows;
  static constexpr int kStage = kTileRows * kRowBytes + kTileOuts * kOutBytes;

  __device__ MmaKernel(const MmaPlan& p, const TileRows& rows, char* memory)
      : p_(p), rows_(rows), memory_(memory), out0_(static_cast<int>(blockIdx.x) * kTileOuts) {
    const int thread = static_cast<int>(threadIdx.x), g = thread % 32 / 4, c = thread % 4;
    warp_row_ = thread / 32 % 2 * 64;
    warp_out_ = thread / 64 * 32;
    in_ = static_cast<int>(p.w.in);
    // What this thread copies: chunk thread % 8 of rows thread / 8 + 64 j of x, and the same of w (FP8: chunk thread %
    // 4 of rows thread / 4 + 128 j). These rows have the same place in the pattern of banks.
    x_chunk_ = thread % 8 * 8;
    x_place_ = thread / 8 * 128 + swizzled(thread / 8, thread % 8) * 16;
    for (int j = 0; j < kTileRows / 64; ++j) x_there_[j] = thread / 8 + 64 * j < rows.rows;
    x_from_ = static_cast<const char*>(p.x) + ((rows.begin + thread / 8) * p.x_stride + x_chunk_) * 2;
    const char* w = static_cast<const char*>(p.w.data) + static_cast<i64>(rows.expert) * p.w.out * p.w.in * kByte;
    const int w_row = thread / kChunks;
    w_chunk_ = thread % kChunks * (16 / kByte);
    w_place_ = kFp8 ? w_row / 2 * 128 + swizzled(w_row / 2, w_row % 2 * 4 + thread % 4) * 16
                    : w_row * 128 + swizzled(w_row, thread % 8) * 16;
    for (int j = 0; j < kCopies; ++j) w_there_[j] = out0_ + w_row + kCopyRows * j < p.w.out;
    w_from_ = w + (static_cast<i64>(out0_ + w_row) * p.w.in + w_chunk_) * kByte;
    // What it multiplies: 16 bytes of rows 8 i + g, at chunk 4 h + c for h = 0, 1.
    const int turn = swizzled(g, 0);
    x_first_ = (warp_row_ + g) * 128 + (c ^ turn) * 16;
    x_second_ = (warp_row_ + g) * 128 + ((4 + c) ^ turn) * 16;
    if constexpr (kFp8) {
      const i64 blocks = (p.w.in + kUnit - 1) / kUnit;
      const i64 block = min(static_cast<i64>(out0_ + warp_out_), p.w.out - 1) / kUnit;
      scales_ = p.w.scale + (static_cast<i64>(rows.expert) * ((p.w.out + kUnit - 1) / kUnit) + block) * blocks;
    }
  }

  __device__ void run() {
    const int steps = static_cast<int>((p_.w.in + kTileIn - 1) / kTileIn);
    for (int s = 0; s < kStages - 1; ++s) fetch(s, s, steps);
    for (int s = 0; s < steps; ++s) {
      asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2));
      __syncthreads();
      fetch(s + kStages - 1, (s + kStages - 1) % kStages, steps);
      multiply(memory_ + s % kStages * kStage, s);
    }
    asm volatile("cp.async.wait_group 0;");
    save();
  }

 private:
  __device__ void fetch(int step, int stage, int steps) {
    if (step < steps) {
      const auto base = static_cast<std::uint32_t>(__cvta_generic_to_shared(memory_ + stage * kStage));
      const int k0 = step * kTileIn;
      const bool x_inside = k0 + x_chunk_ < in_, w_inside = k0 + w_chunk_ < in_;
      const char *x = x_from_ + k0 * 2, *w = w_from_ + static_cast<i64>(k0) * kByte;
#pragma unroll
      for (int j = 0; j < kTileRows / 64; ++j) {
        const bool there = x_inside && x_there_[j];
        copy_chunk(base + x_place_ + j * 64 * 128, there ? x + j * 64 * p_.x_stride * 2 : p_.x, there);
      }
#pragma unroll
      for (int j = 0; j < kCopies; ++j) {
        const bool there = w_inside && w_there_[j];
        copy_chunk(base + kTileRows * kRowBytes + w_place_ + j * kCopyRows * kOutBytes,
                   there ? w + static_cast<i64>(j * kCopyRows) * in_ * kByte : p_.w.data, there);
      }
    }
    asm volatile("cp.async.commit_group;");
  }

  // 8 weights of output row `row` from inner entry 32 h + 8 c on, as bf16.
  __device__ uint4 weights(const char* base, int row, int h, float scale) const {
    const int c = threadIdx.x % 4;
    if constexpr (!kFp8) {
      return *reinterpret_cast<const uint4*>(base + row * 128 + swizzled(row, h * 4 + c) * 16);
    } else {
      const int chunk = row % 2 * 4 + h * 2 + c / 2;
      const uint2 codes =
          *reinterpret_cast<const uint2*>(base + row / 2 * 128 + swizzled(row / 2, chunk) * 16 + c % 2 * 8);
      uint4 v;
      widen_e4m3(codes.x, v.x, v.y);
      widen_e4m3(codes.y, v.z, v.w);
      const auto scaled = [scale](std::uint32_t pair) {
        return pack_bf16(__uint_as_float(pair << 16) * scale, __uint_as_float(pair & 0xffff0000u) * scale);
      };
      return {scaled(v.x), scaled(v.y), scaled(v.z), scaled(v.w)};
    }
  }

  __device__ void multiply(const char* stage, int step) {
    const int g = threadIdx.x % 32 / 4;
    const char* outs = stage + kTileRows * kRowBytes;
    float scale = 1;
    if constexpr (kFp8) scale = scales_[step / 2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      uint4 low[4], high[4];
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        const char* row = stage + (h == 0 ? x_first_ : x_second_) + m * 16 * 128;
        low[m] = *reinterpret_cast<const uint4*>(row);
        high[m] = *reinterpret_cast<const uint4*>(row + 8 * 128);
      }
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const uint4 w = weights(outs, warp_out_ + n * 8 + g, h, scale);
#pragma unroll
        for (int m = 0; m < 4; ++m) mma_bf16(sums_[m][n], low[m].x, high[m].x, low[m].y, high[m].y, w.x, w.y);
#pragma unroll
        for (int m = 0; m < 4; ++m) mma_bf16(sums_[m][n], low[m].z, high[m].z, low[m].w, high[m].w, w.z, w.w);
      }
    }
  }

  __device__ void save() const {
    const int g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
#pragma unroll
    for (int m = 0; m < 4; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = warp_row_ + m * 16 + half * 8 + g;
        if (row >= rows_.rows) continue;
        const i64 at = (rows_.begin + row) * p_.y_stride;
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const i64 out = out0_ + warp_out_ + n * 8 + 2 * c;
          if (out < p_.w.out) store(p_.y, p_.y_type, at + out, sums_[m][n][2 * half]);
          if (out + 1 < p_.w.out) store(p_.y, p_.y_type, at + out + 1, sums_[m][n][2 * half + 1]);
        }
      }
  }

  const MmaPlan& p_;
  TileRows rows_;
  char* memory_;
  const char *x_from_, *w_from_;
  const float* scales_ = nullptr;
  int out0_, warp_row_, warp_out_, in_, x_chunk_, x_place_, w_chunk_, w_place_, x_first_, x_second_;
  bool x_there_[kTileRows / 64], w_there_[kCopies];
  float sums_[4][4][4] = {};
};

template <bool kFp8>
__global__ void __launch_bounds__(kTileThreads, 1) mma_kernel(const MmaPlan product) {
  extern __shared__ __align__(128) char tile_memory[];
  MmaPlan p = product;
  if (p.heads > 1) {
    p.x = static_cast<const char*>(p.x) + blockIdx.z * p.x_head * 2;
    p.w.data = static_cast<const char*>(p.w.data) + blockIdx.z * p.w_head * 2;
    p.y = static_cast<char*>(p.y) + blockIdx.z * p.y_head * (p.y_type == Type::f32 ? 4 : 2);
  }
  TileRows rows;
  if (p.offsets == nullptr)
    rows = {0, static_cast<int>(blockIdx.y) * kTileRows,
            static_cast<int>(min(static_cast<i64>(kTileRows), p.rows - static_cast<i64>(blockIdx.y) * kTileRows))};
  else
    rows = find_tile(p.offsets, static_cast<int>(p.w.count), static_cast<int>(blockIdx.y));
  if (rows.rows <= 0) return;
  MmaKernel<kFp8>(p, rows, tile_memory).run();
}

template <bool kFp8>
void launch_mma(cudaStream_t s, const MmaPlan& p) {
  constexpr int kBytes = MmaKernel<kFp8>::kStage * kStages;
  cudaFuncSetAttribute(mma_kernel<kFp8>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  // Each expert adds at most one tile that is not full.
  const i64 row_tiles =
      (p.rows + kTileRows - 1) / kTileRows + (p.offsets != nullptr ? (p.w.count < p.rows ? p.w.count : p.rows) : 0);
  const dim3 grid(static_cast<unsigned>((p.w.out + kTileOuts - 1) / kTileOuts), static_cast<unsigned>(row_tiles),
                  static_cast<unsigned>(p.heads));
  mma_kernel<kFp8><<<grid, kTileThreads, kBytes, s>>>(p);
  check_launch("mma");
}

}  // namespace fathom::cuda
