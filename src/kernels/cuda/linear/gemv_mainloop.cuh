// Products with few rows (decode): weights stream once from memory through registers into tensor-core tiles.
//
// A block owns 16 outputs; its warps share the inner dimension in units of 128 entries and add up at the end. In
// mma.m16n8k16 the weights are the 16 rows and tokens the 8 columns. The order of the inner dimension is free as long
// as both sides agree, so a thread takes 16 consecutive bytes of a row where the instruction wants scattered pairs.
// Lane = 4 g + c: rows g and g + 8 of the weights, token g, inner entries of part c; results (g, 2c), (g, 2c + 1),
// (g + 8, 2c), (g + 8, 2c + 1).
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/numbers.cuh"

namespace fathom::cuda {

__device__ inline void mma_bf16(float (&c)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2, std::uint32_t a3,
                                std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// 16 bytes that are read once: they should not displace others from the first-level cache.
__device__ inline uint4 load_once(const void* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

// What the tokens' rows are.
enum class Rows : std::uint8_t {
  bf16,    // values
  shared,  // bf16 values in shared memory; codes with a scale per unit where activations are quantised
  codes,   // e4m3 with a scale per unit
};

// The rows of one warp's tokens: pointers of token g of each tile of 8. Where there is no such token, another's row
// stands in: columns do not touch each other, and loads without conditions can all be on their way at once.
template <Rows kRows, int kTiles>
struct Tokens {
  const char* row[kTiles];

  // 8 entries from k on, as bf16.
  __device__ uint4 load(int tile, int k) const {
    if constexpr (kRows != Rows::codes) return *reinterpret_cast<const uint4*>(row[tile] + 2 * k);
    const uint2 codes = *reinterpret_cast<const uint2*>(row[tile] + k);
    uint4 v;
    widen_e4m3(codes.x, v.x, v.y);
    widen_e4m3(codes.y, v.z, v.w);
    return v;
  }
};

// A thread's share of one unit of 16 weight rows.
template <bool kFp8>
struct Unit {
  static constexpr int kSteps = kFp8 ? 2 : 4, kBytes = kFp8 ? 1 : 2, kStep = kUnit / kSteps;
  uint4 low[kSteps], high[kSteps];  // rows g and g + 8

  // low_row, high_row: starts of the two rows; entries from k on; what lies at or beyond `in` is zero.
  __device__ void load(const char* low_row, const char* high_row, int k, int in) {
    const int c = threadIdx.x % 4;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int at = k + s * kStep + c * (16 / kBytes);
      const bool inside = at < in;
      low[s] = inside ? load_once(low_row + static_cast<i64>(at) * kBytes) : uint4{};
      high[s] = inside ? load_once(high_row + static_cast<i64>(at) * kBytes) : uint4{};
    }
  }
};

// sums[tile] += a unit of weights times the tokens' entries from k on.
template <bool kFp8, Rows kRows, int kTiles>
__device__ void multiply(float (&sums)[kTiles][4], const Unit<kFp8>& unit, const Tokens<kRows, kTiles>& tokens, int k,
                         int in) {
  const int c = threadIdx.x % 4;
#pragma unroll
  for (int s = 0; s < Unit<kFp8>::kSteps; ++s) {
    // Weights beyond the end are zero, any numbers may stand against them.
    const int wanted = k + s * Unit<kFp8>::kStep + c * (16 / Unit<kFp8>::kBytes);
    const int at = min(wanted, in - 16 / Unit<kFp8>::kBytes);
    const uint4 low = unit.low[s], high = unit.high[s];
    // All loads of a step first, so that they are on their way together.
    uint4 x[kTiles];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) x[n] = tokens.load(n, at);
    if constexpr (!kFp8) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        mma_bf16(sums[n], low.x, high.x, low.y, high.y, x[n].x, x[n].y);
        mma_bf16(sums[n], low.z, high.z, low.w, high.w, x[n].z, x[n].w);
      }
    } else {
      uint4 y[kTiles];
#pragma unroll
      for (int n = 0; n < kTiles; ++n) y[n] = tokens.load(n, at + 8);
      std::uint32_t a[8], b[8];
      widen_e4m3(low.x, a[0], a[1]), widen_e4m3(low.y, a[2], a[3]);
      widen_e4m3(low.z, a[4], a[5]), widen_e4m3(low.w, a[6], a[7]);
      widen_e4m3(high.x, b[0], b[1]), widen_e4m3(high.y, b[2], b[3]);
      widen_e4m3(high.z, b[4], b[5]), widen_e4m3(high.w, b[6], b[7]);
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        mma_bf16(sums[n], a[0], b[0], a[1], b[1], x[n].x, x[n].y);
        mma_bf16(sums[n], a[2], b[2], a[3], b[3], x[n].z, x[n].w);
        mma_bf16(sums[n], a[4], b[4], a[5], b[5], y[n].x, y[n].y);
        mma_bf16(sums[n], a[6], b[6], a[7], b[7], y[n].z, y[n].w);
      }
    }
  }
}

// The 16 weight rows of a tile as a thread sees them: its low and its high row, and the scales of their blocks.
struct TileRows16 {
  const char *low, *high;
  const float *low_scale, *high_scale;
  int in;
};

// One matrix of a stack.
template <bool kFp8>
struct OneMatrix {
  const char* data;
  const float* scale;
  int out, in;

  __device__ OneMatrix(const Matrix& w, i64 index) : out(static_cast<int>(w.out)), in(static_cast<int>(w.in)) {
    data = static_cast<const char*>(w.data) + index * w.out * w.in * Unit<kFp8>::kBytes;
    scale = kFp8 ? w.scale + index * ((w.out + kUnit - 1) / kUnit) * ((w.in + kUnit - 1) / kUnit) : nullptr;
  }
  __device__ const char* row(int r) const {
    return data + static_cast<i64>(min(r, out - 1)) * in * Unit<kFp8>::kBytes;  // past the end the last row repeats
  }
  __device__ const float* scales(int r) const {
    return kFp8 ? scale + static_cast<i64>(min(r, out - 1) / kUnit) * ((in + kUnit - 1) / kUnit) : nullptr;
  }
};

// Rows first .. first + 15 of a matrix.
template <bool kFp8>
__device__ TileRows16 sixteen_rows(const OneMatrix<kFp8>& w, int first) {
  const int g = threadIdx.x % 32 / 4;
  return {w.row(first + g), w.row(first + 8 + g), w.scales(first), w.scales(first), w.in};
}

// Rows first .. first + 7 of two matrices: results of a pair stand in the same thread.
template <bool kFp8>
__device__ TileRows16 eight_rows(const OneMatrix<kFp8>& a, const OneMatrix<kFp8>& b, int first) {
  const int g = threadIdx.x % 32 / 4;
  return {a.row(first + g), b.row(first + g), a.scales(first), b.scales(first), a.in};
}

// A unit on its way, with its scales.
template <bool kFp8>
struct Fetched {
  Unit<kFp8> unit;
  float low_scale = 1, high_scale = 1;

  __device__ void fetch(const TileRows16& w, int u, int units) {
    if (u >= units) return;
    unit.load(w.low, w.high, u * kUnit, w.in);
    if constexpr (kFp8) low_scale = w.low_scale[u], high_scale = w.high_scale[u];
  }
};

// sums += a fetched unit times the tokens; token_scales: of columns 2c and 2c + 1 of each tile, a factor a unit, or
// null.
template <bool kFp8, Rows kRows, int kTiles>
__device__ void add_unit(float (&sums)[kTiles][4], const Fetched<kFp8>& w, const Tokens<kRows, kTiles>& tokens,
                         const float* const (&token_scales)[kTiles][2], int u, int in) {
  if constexpr (!kFp8) {
    multiply<kFp8>(sums, w.unit, tokens, u * kUnit, in);
  } else {
    float part[kTiles][4] = {};
    multiply<kFp8>(part, w.unit, tokens, u * kUnit, in);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      float even = 1, odd = 1;
      if constexpr (kRows != Rows::bf16) {
        even = token_scales[n][0] != nullptr ? token_scales[n][0][u] : 1;
        odd = token_scales[n][1] != nullptr ? token_scales[n][1][u] : 1;
      }
      sums[n][0] += part[n][0] * (w.low_scale * even);
      sums[n][1] += part[n][1] * (w.low_scale * odd);
      sums[n][2] += part[n][2] * (w.high_scale * even);
      sums[n][3] += part[n][3] * (w.high_scale * odd);
    }
  }
}

// The whole product of a tile, this warp's units only, two of them on their way at any time (more were slower: they
// cost registers, and warps with them). The first are fetched before the previous kernel has finished; `after_wait`
// prepares the tokens once it has.
template <bool kFp8, Rows kRows, int kTiles, typename AfterWait>
__device__ void stream(float (&sums)[kTiles][4], const TileRows16& w, Tokens<kRows, kTiles>& tokens,
                       const float* const (&token_scales)[kTiles][2], AfterWait&& after_wait) {
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32, units = (w.in + kUnit - 1) / kUnit;
  Fetched<kFp8> a, b;
  a.fetch(w, warp, units);
  b.fetch(w, warp + warps, units);
  after_wait();
  for (int u = warp; u < units; u += 2 * warps) {
    add_unit(sums, a, tokens, token_scales, u, w.in);
    a.fetch(w, u + 2 * warps, units);
    if (u + warps >= units) break;
    add_unit(sums, b, tokens, token_scales, u + warps, w.in);
    b.fetch(w, u + 3 * warps, units);
  }
}

// Sums of the warps' parts in shared memory: [warps][16][8 kTiles].
template <int kTiles>
struct Parts {
  static constexpr int kWidth = 8 * kTiles + 1, kSize = 16 * kWidth;
  float* memory;

  static __host__ __device__ std::size_t bytes(int warps) {
    return static_cast<std::size_t>(warps * kSize) * sizeof(float);
  }

  __device__ void put(const float (&sums)[kTiles][4]) const {
    const int g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
    float* mine = memory + threadIdx.x / 32 * kSize;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      float* low = mine + g * kWidth + n * 8 + 2 * c;
      float* high = low + 8 * kWidth;
      low[0] = sums[n][0], low[1] = sums[n][1];
      high[0] = sums[n][2], high[1] = sums[n][3];
    }
  }
  __device__ float get(int row, int token) const {
    float sum = 0;
    for (int w = 0; w < static_cast<int>(blockDim.x / 32); ++w) sum += memory[w * kSize + row * kWidth + token];
    return sum;
  }
};

// Warps a block: all tiles at once on the multiprocessors with about 16 warps each, no more warps than units.
inline int warps_for(i64 tiles, i64 in, int least, int most, int multiprocessors) {
  const i64 units = (in + kUnit - 1) / kUnit;
  int warps = 1;
  while (warps < most && warps * 2 <= units && (warps < least || tiles * warps * 2 <= multiprocessors * 16)) warps *= 2;
  return warps;
}

}  // namespace fathom::cuda
