// Products of many rows on tensor cores: tiles of 128 rows x 256 outputs, 64 inner entries at a time, through a ring of
// as many stages as the device's shared memory has room for. Sixteen warps of 64 x 32. Codes stay codes in shared
// memory and become bf16, exactly, in registers; sums are kept in units of the scales of the current 128 inner entries.
//
// As in gemv_mainloop.cuh a thread takes 8 neighbouring inner entries where mma.m16n8k16 wants scattered pairs.
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear/gemv_mainloop.cuh"
#include "kernels/cuda/linear/mma_plan.h"

namespace fathom::cuda {

constexpr int kTileThreads = 512;

struct MmaPlan {
  const void* x;         // bf16 or e4m3 [rows, in]
  const float* x_scale;  // of codes: [rows, in / 128]
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

// One side's tiles in shared memory: kRows rows of 64 entries, of bf16 in 128 bytes each, of codes two in 128 bytes.
template <int kByte, int kRows>
class Operand {
 public:
  static constexpr int kRowBytes = kTileIn * kByte, kBytes = kRows * kRowBytes;

  // first: the tile's first row; `rows` of them are there. This thread reads rows 8 i + g from `mine` on.
  __device__ Operand(const void* data, i64 first, i64 row_bytes, i64 rows, int in, int mine)
      : data_(static_cast<const char*>(data)), in_(in) {
    const int thread = static_cast<int>(threadIdx.x), row = thread / kChunks, chunk = thread % kChunks;
    entry_ = chunk * (16 / kByte);
    place_ = place(row, chunk);
    for (int j = 0; j < kCopies; ++j) there_[j] = row + kCopyRows * j < rows;
    from_ = data_ + (first + row) * row_bytes + chunk * 16;
    step_ = kCopyRows * row_bytes;
    const int g = thread % 32 / 4, c = thread % 4;
    read_ = kByte == 2 ? place(mine + g, c) : place(mine + g, c / 2) + c % 2 * 8;
  }

  // Starts the copies of this thread's chunks of inner entries from k on; what is not there is zero.
  __device__ void fetch(std::uint32_t stage, int k) const {
#pragma unroll
    for (int j = 0; j < kCopies; ++j) {
      const bool there = k + entry_ < in_ && there_[j];
      copy_chunk(stage + place_ + j * kCopyRows * kRowBytes, there ? from_ + j * step_ + k * kByte : data_, there);
    }
  }

  // 8 inner entries of row 8 i + g, from 32 h + 8 c on, as bf16; codes times factor (see widen_e4m3).
  __device__ uint4 read(const char* stage, int i, int h, std::uint32_t factor) const {
    if constexpr (kByte == 2) {
      return *reinterpret_cast<const uint4*>(stage + (read_ ^ h * 64) + i * 8 * kRowBytes);
    } else {
      const uint2 codes = *reinterpret_cast<const uint2*>(stage + (read_ ^ (h ^ (i & 1)) * 32) + i * 8 * kRowBytes);
      uint4 v;
      widen_e4m3(codes.x, v.x, v.y, factor);
      widen_e4m3(codes.y, v.z, v.w, factor);
      return v;
    }
  }

 private:
  static constexpr int kChunks = kRowBytes / 16, kCopyRows = kTileThreads / kChunks, kCopies = kRows / kCopyRows;

  __device__ static int place(int row, int chunk) {
    if (kByte == 2) return row * 128 + swizzled(row, chunk) * 16;
    return row / 2 * 128 + swizzled(row / 2, row % 2 * 4 + chunk) * 16;
  }

  const char *data_, *from_;
  i64 step_;
  int in_, entry_, place_, read_;
  bool there_[kCopies];
};

template <Kind kKind, int kStages>
class MmaKernel {
 public:
  using Rows = Operand<kKind == Kind::fp8 ? 1 : 2, kTileRows>;
  using Weights = Operand<kKind == Kind::bf16 ? 2 : 1, kTileOuts>;
  static constexpr int kStage = Rows::kBytes + Weights::kBytes;
  static_assert(kStage == mma_stage_bytes(kKind));

  __device__ MmaKernel(const MmaPlan& p, const TileRows& rows, char* memory)
      : p_(p),
        tile_(rows),
        memory_(memory),
        out0_(static_cast<int>(blockIdx.x) * kTileOuts),
        warp_row_(static_cast<int>(threadIdx.x) / 32 % 2 * 64),
        warp_out_(static_cast<int>(threadIdx.x) / 64 * 32),
        blocks_(static_cast<int>((p.w.in + kUnit - 1) / kUnit)),
        x_(p.x, rows.begin, p.x_stride * (kKind == Kind::fp8 ? 1 : 2), rows.rows, static_cast<int>(p.w.in), warp_row_),
        w_(p.w.data, rows.expert * p.w.out + out0_, p.w.in * (kKind == Kind::bf16 ? 2 : 1), p.w.out - out0_,
           static_cast<int>(p.w.in), warp_out_) {
    if constexpr (kKind != Kind::bf16) {
      const i64 row = min(static_cast<i64>(out0_ + warp_out_), p.w.out - 1) / kUnit;
      scales_ = p.w.scale + (rows.expert * ((p.w.out + kUnit - 1) / kUnit) + row) * blocks_;
    }
  }

  __device__ void run() {
    const int steps = static_cast<int>((p_.w.in + kTileIn - 1) / kTileIn);
    for (int s = 0; s < kStages - 1; ++s) fetch(s, s, steps);
    for (int s = 0; s < steps; ++s) {
      asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2));
      __syncthreads();
      fetch(s + kStages - 1, (s + kStages - 1) % kStages, steps);
      if constexpr (kKind != Kind::bf16)
        if (s % 2 == 0) enter(s / 2);
      multiply(memory_ + s % kStages * kStage);
    }
    asm volatile("cp.async.wait_group 0;");
    save();
  }

 private:
  __device__ void fetch(int step, int stage, int steps) const {
    if (step < steps) {
      const auto base = static_cast<std::uint32_t>(__cvta_generic_to_shared(memory_ + stage * kStage));
      x_.fetch(base, step * kTileIn);
      w_.fetch(base + Rows::kBytes, step * kTileIn);
    }
    asm volatile("cp.async.commit_group;");
  }

  // The scale of row 16 m + 8 half + g of this warp in a block of inner entries; 1 before the first block.
  __device__ float x_scale(int m, int half, int block) const {
    if (kKind != Kind::fp8 || block < 0) return 1;
    const int row = min(warp_row_ + m * 16 + half * 8 + static_cast<int>(threadIdx.x) % 32 / 4, tile_.rows - 1);
    return __ldg(p_.x_scale + static_cast<i64>(tile_.begin + row) * blocks_ + block);
  }

  // On to a block of 128 inner entries: the sums go from units of the last one's scales to its own.
  __device__ void enter(int block) {
    const float scale = scales_[block];
    factor_ = counts(scale) ? kWidenE4m3 : 0;
    if (!counts(scale)) return;
#pragma unroll
    for (int m = 0; m < 4; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float ratio = unit_ * x_scale(m, half, last_) * __frcp_rn(scale * x_scale(m, half, block));
#pragma unroll
        for (int n = 0; n < 4; ++n) sums_[m][n][2 * half] *= ratio, sums_[m][n][2 * half + 1] *= ratio;
      }
    unit_ = scale;
    last_ = block;
  }

  __device__ void multiply(const char* stage) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      uint4 low[4], high[4];
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        low[m] = x_.read(stage, 2 * m, h, kWidenE4m3);
        high[m] = x_.read(stage, 2 * m + 1, h, kWidenE4m3);
      }
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const uint4 w = w_.read(stage + Rows::kBytes, n, h, factor_);
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
        if (row >= tile_.rows) continue;
        const float unit = unit_ * x_scale(m, half, last_);
        const i64 at = (tile_.begin + row) * p_.y_stride;
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const i64 out = out0_ + warp_out_ + n * 8 + 2 * c;
          if (out < p_.w.out) store(p_.y, p_.y_type, at + out, sums_[m][n][2 * half] * unit);
          if (out + 1 < p_.w.out) store(p_.y, p_.y_type, at + out + 1, sums_[m][n][2 * half + 1] * unit);
        }
      }
  }

  const MmaPlan& p_;
  TileRows tile_;
  char* memory_;
  int out0_, warp_row_, warp_out_, blocks_;
  Rows x_;
  Weights w_;
  const float* scales_ = nullptr;
  float unit_ = 1;  // of the sums: the scale of block `last_`
  int last_ = -1;
  std::uint32_t factor_ = kWidenE4m3;
  float sums_[4][4][4] = {};
};

template <Kind kKind, int kStages>
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
  MmaKernel<kKind, kStages>(p, rows, tile_memory).run();
}

template <Kind kKind, int kStages = kMostMmaStages>
void launch_mma(Stream& s, const MmaPlan& p, int stages) {
  if constexpr (kStages > kLeastMmaStages<kKind>)
    if (stages < kStages) return launch_mma<kKind, kStages - 1>(s, p, stages);
  // Each expert adds at most one tile that is not full.
  const i64 row_tiles =
      (p.rows + kTileRows - 1) / kTileRows + (p.offsets != nullptr ? (p.w.count < p.rows ? p.w.count : p.rows) : 0);
  const dim3 grid(static_cast<unsigned>((p.w.out + kTileOuts - 1) / kTileOuts), static_cast<unsigned>(row_tiles),
                  static_cast<unsigned>(p.heads));
  launch(mma_kernel<kKind, kStages>, {"mma", grid, kTileThreads, kStages * mma_stage_bytes(kKind)}, s, p);
}

}  // namespace fathom::cuda
