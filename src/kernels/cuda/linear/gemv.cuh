// Products of few rows with up to three matrices that share their input, or one matrix a head.
#pragma once

#include "kernels/cuda/linear/gemv_input.cuh"
#include "kernels/cuda/linear/product.h"

namespace fathom::cuda {

// A product as the kernel sees it: up to three matrices of one input, or one matrix a head.
struct GemvPlan {
  Product::Part part[kMostParts];
  int parts = 1, tokens = 0, heads = 1;
  const void* x = nullptr;  // [tokens, heads, in]: bf16; float32 with gain; e4m3 with x_scale
  i64 x_stride = 0;
  i64 x_head = 0, w_head = 0, y_head = 0;
  const float* x_scale = nullptr;  // [tokens, in / 128]
  // With one of these x, of at most 8 tokens, is made ready in shared memory: see input_fits_shared.
  const float* gain = nullptr;
  float eps = 0;
  bool quantise = false;
  bool add = false;
};

constexpr int kMostTiles = 8;  // of 8 tokens that a block takes; more tokens are more blocks

// The 16 outputs of one tile and head for tokens from `base` on.
template <bool kFp8, Rows kRows, int kTiles>
__device__ void gemv_tile(const GemvPlan& p, int tile, i64 head, int base, float* memory) {
  int part = 0;
  while (part + 1 < p.parts && tile >= (p.part[part].w.out + 15) / 16)
    tile -= static_cast<int>(p.part[part++].w.out + 15) / 16;
  const Product::Part& out = p.part[part];
  const int first = tile * 16, g = threadIdx.x % 32 / 4, c = threadIdx.x % 4, in = static_cast<int>(out.w.in),
            count = min(p.tokens - base, 8 * kTiles);
  OneMatrix<kFp8> w(out.w, 0);
  w.data += head * p.w_head * Unit<kFp8>::kBytes;
  Tokens<kRows, kTiles> tokens{};
  const float* scales[kTiles][2] = {};
  float sums[kTiles][4] = {};
  const Parts<kTiles> parts{memory};
  stream<kFp8>(sums, sixteen_rows(w, first), tokens, scales, [&] {
    wait_for_previous();
    if constexpr (kRows == Rows::shared) {
      const InputPlace place{reinterpret_cast<char*>(memory) + Parts<kTiles>::bytes(blockDim.x / 32), in};
      prepare_input({p.x, p.x_stride, p.gain, p.eps, p.tokens, p.quantise, out.w.power_of_two}, place);
      use_prepared(place, p.tokens, p.quantise, tokens, scales);
    } else {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const int token = base + min(n * 8 + g, count - 1);
        tokens.row[n] =
            static_cast<const char*>(p.x) + (token * p.x_stride + head * p.x_head) * (kRows == Rows::codes ? 1 : 2);
        if constexpr (kRows == Rows::codes)
          for (int i = 0; i < 2; ++i)
            scales[n][i] = p.x_scale + static_cast<i64>(base + min(n * 8 + 2 * c + i, count - 1)) * (in / kUnit);
      }
    }
  });
  parts.put(sums);
  __syncthreads();
  for (int i = threadIdx.x; i < 16 * count; i += blockDim.x) {
    const int row = i % 16, token = i / 16;
    if (first + row >= out.w.out) continue;
    float value = parts.get(row, token);
    const i64 at = (base + token) * out.y_stride + head * p.y_head + first + row;
    if (p.add) value += load(out.y, out.y_type, at);
    store(out.y, out.y_type, at, value);
  }
}

template <bool kFp8, Rows kRows, int kTiles>
__global__ void __launch_bounds__(kTiles >= 4 ? 256 : 512) gemv_kernel(const __grid_constant__ GemvPlan p) {
  extern __shared__ __align__(16) float memory[];
  let_next_start();
  // Blocks of the same weights are neighbours: the later ones find them in the second-level cache.
  gemv_tile<kFp8, kRows, kTiles>(p, static_cast<int>(blockIdx.y), blockIdx.z, static_cast<int>(blockIdx.x) * 8 * kTiles,
                                 memory);
}

template <bool kFp8, Rows kRows, int kTiles>
void launch_gemv(Stream& s, const GemvPlan& p) {
  i64 tiles = 0;
  for (int i = 0; i < p.parts; ++i) tiles += (p.part[i].w.out + 15) / 16;
  if (tiles == 0 || p.tokens == 0) return;
  const int warps = warps_for(tiles * p.heads, p.part[0].w.in, p.heads > 1 ? 1 : 4, kTiles >= 4 ? 8 : 16,
                              s.device.multiprocessors),
            chunks = (p.tokens + 8 * kTiles - 1) / (8 * kTiles);
  std::size_t shared = Parts<kTiles>::bytes(warps);
  if (kRows == Rows::shared) shared += InputPlace::bytes(p.tokens, p.part[0].w.in);
  launch_early(gemv_kernel<kFp8, kRows, kTiles>, "gemv",
               dim3(static_cast<unsigned>(chunks), static_cast<unsigned>(tiles), static_cast<unsigned>(p.heads)),
               static_cast<unsigned>(warps * 32), shared, s, p);
}

template <bool kFp8, Rows kRows>
void dispatch_gemv(Stream& s, const GemvPlan& p) {
  if (p.tokens <= 8) return launch_gemv<kFp8, kRows, 1>(s, p);
  if constexpr (kRows != Rows::shared) {
    if (p.tokens <= 16) return launch_gemv<kFp8, kRows, 2>(s, p);
    if (p.tokens <= 32) return launch_gemv<kFp8, kRows, 4>(s, p);
    launch_gemv<kFp8, kRows, kMostTiles>(s, p);
  }
}

void gemv_fp8(Stream& s, const GemvPlan& p);

}  // namespace fathom::cuda
