// Products of up to 64 rows with up to three matrices that share their input, or one matrix a head.
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/small.cuh"

namespace fathom::cuda {

// The 16 outputs of one tile and head.
template <bool kFp8, Rows kRows, int kTiles>
__device__ void small_tile(const SmallLinear& p, int tile, i64 head, float* memory) {
  int part = 0;
  while (part + 1 < p.parts && tile >= (p.part[part].w.out + 15) / 16)
    tile -= static_cast<int>(p.part[part++].w.out + 15) / 16;
  const SmallLinear::Part& out = p.part[part];
  const int first = tile * 16, g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
  OneMatrix<kFp8> w(out.w, 0);
  w.data += head * p.w_head * Unit<kFp8>::kBytes;
  Tokens<kRows, kTiles> tokens{};
  const float* scales[kTiles][2] = {};
  float sums[kTiles][4] = {};
  stream<kFp8>(sums, sixteen_rows(w, first), tokens, scales, [&] {
    wait_for_previous();
    constexpr int kBytes = kRows == Rows::bf16 ? 2 : kRows == Rows::normed ? 4 : 1;
    tokens.gain = p.gain;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const int token = min(n * 8 + g, p.tokens - 1);
      tokens.row[n] = static_cast<const char*>(p.x) + (token * p.x_stride + head * p.x_head) * kBytes;
      if constexpr (kRows == Rows::codes)
        for (int i = 0; i < 2; ++i)
          if (n * 8 + 2 * c + i < p.tokens)
            scales[n][i] = p.x_scale + static_cast<i64>(n * 8 + 2 * c + i) * (out.w.in / kUnit);
    }
  });
  const Parts<kTiles> parts{memory};
  parts.put(sums);
  if constexpr (kRows == Rows::normed) parts.put_squares(tokens.squares);
  __syncthreads();
  for (int i = threadIdx.x; i < 16 * p.tokens; i += blockDim.x) {
    const int row = i % 16, token = i / 16;
    if (first + row >= out.w.out) continue;
    float value = parts.get(row, token);
    if constexpr (kRows == Rows::normed) value *= parts.factor(token, static_cast<int>(out.w.in), p.eps);
    const i64 at = token * out.y_stride + head * p.y_head + first + row;
    if (p.add) value += load(out.y, out.y_type, at);
    store(out.y, out.y_type, at, value);
  }
}

template <bool kFp8, Rows kRows, int kTiles>
__global__ void __launch_bounds__(kTiles >= 4 ? 256 : 512) linear_small_kernel(const SmallLinear p) {
  extern __shared__ float memory[];
  let_next_start();
  small_tile<kFp8, kRows, kTiles>(p, static_cast<int>(blockIdx.x), blockIdx.y, memory);
}

template <bool kFp8, Rows kRows, int kTiles>
void launch_linear_small(cudaStream_t s, const SmallLinear& p) {
  i64 tiles = 0;
  for (int i = 0; i < p.parts; ++i) tiles += (p.part[i].w.out + 15) / 16;
  if (tiles == 0) return;
  const int warps = warps_for(tiles * p.heads, p.part[0].w.in, p.heads > 1 ? 1 : 4, kTiles >= 4 ? 8 : 16);
  launch_early(linear_small_kernel<kFp8, kRows, kTiles>, "linear_small",
               dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(p.heads)), static_cast<unsigned>(warps * 32),
               Parts<kTiles>::bytes(warps), s, p);
}

template <bool kFp8, Rows kRows>
void dispatch_linear_small(cudaStream_t s, const SmallLinear& p) {
  if (p.tokens <= 8) return launch_linear_small<kFp8, kRows, 1>(s, p);
  if constexpr (kRows != Rows::normed) {
    if (p.tokens <= 16) return launch_linear_small<kFp8, kRows, 2>(s, p);
    if (p.tokens <= 32) return launch_linear_small<kFp8, kRows, 4>(s, p);
    launch_linear_small<kFp8, kRows, 8>(s, p);
  }
}

}  // namespace fathom::cuda
