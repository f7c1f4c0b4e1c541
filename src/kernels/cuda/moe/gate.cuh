// The gate and the shared experts' first half in one launch: both need the normalised tokens and nothing else. With few
// tokens the block that finishes the last logits routes them all; a single token is routed by whoever needs it.
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear/gemv_input.cuh"
#include "kernels/cuda/moe/lists.cuh"

namespace fathom::cuda {

// Where a block's shared memory goes: sums of warps, then prepared rows.
template <int kTiles>
__device__ InputPlace input_place(float* memory, int in) {
  return {reinterpret_cast<char*>(memory) + Parts<kTiles>::bytes(blockDim.x / 32), in};
}

__device__ inline InputSource input_source(const MoeArgs& p, bool quantise) {
  return {p.x, p.x_stride, p.gain, p.eps, p.tokens, quantise, p.shared_w1.power_of_two};
}

template <Rows kRows, int kTiles>
__device__ void set_tokens(const MoeArgs& p, int base, int count, Tokens<kRows, kTiles>& tokens,
                           const float* (&scales)[kTiles][2]) {
  const int g = threadIdx.x % 32 / 4, c = threadIdx.x % 4, in = static_cast<int>(p.gate.in);
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const int token = base + min(n * 8 + g, count - 1);
    if constexpr (kRows == Rows::codes) {
      tokens.row[n] = reinterpret_cast<const char*>(p.x_codes.data) + static_cast<i64>(token) * in;
      for (int i = 0; i < 2; ++i)
        scales[n][i] = p.x_codes.scale + static_cast<i64>(base + min(n * 8 + 2 * c + i, count - 1)) * (in / kUnit);
    } else {
      tokens.row[n] = static_cast<const char*>(p.x) + token * p.x_stride * 2;
    }
  }
}

// 16 logits of the tokens from `base` on; the last of these tiles to finish routes, where tokens are few.
template <Rows kRows, int kTiles>
__device__ void gate_tile(const MoeArgs& p, int tile, int base, float* memory) {
  const int count = min(p.tokens - base, 8 * kTiles);
  Tokens<kRows, kTiles> tokens{};
  const float* scales[kTiles][2] = {};
  float sums[kTiles][4] = {};
  stream<false>(sums, sixteen_rows(OneMatrix<false>(p.gate, 0), tile * 16), tokens, scales, [&] {
    wait_for_previous();
    if constexpr (kRows == Rows::shared) {
      const InputPlace place = input_place<kTiles>(memory, static_cast<int>(p.gate.in));
      prepare_input(input_source(p, false), place);
      use_prepared(place, count, false, tokens, scales);
    } else {
      set_tokens(p, base, count, tokens, scales);
    }
  });
  const Parts<kTiles> parts{memory};
  parts.put(sums);
  __syncthreads();
  auto* logits = const_cast<float*>(p.route.logits);
  for (int i = threadIdx.x; i < 16 * count; i += blockDim.x) {
    const int row = tile * 16 + i % 16, token = i / 16;
    if (row < p.gate.out) __stcg(logits + (base + token) * p.route.logits_stride + row, parts.get(i % 16, token));
  }
  if (kTiles > 1 || p.experts == nullptr || !last_of(p.counter, static_cast<int>(p.gate.out + 15) / 16)) return;
  const int warps = blockDim.x / 32, warp = threadIdx.x / 32;
  float* mine = memory + route_bytes(p.route) / sizeof(float) * warp;
  for (int t = warp; t < p.tokens; t += warps) route_token(p.route, t, mine);
  __syncthreads();
  list_experts(p, reinterpret_cast<int*>(memory));
}

// 8 of the shared experts' hidden values of the tokens.
template <bool kFp8, Rows kRows, int kTiles>
__device__ void shared_tile(const MoeArgs& p, int tile, int base, float* memory) {
  const int first = tile * 8, count = min(p.tokens - base, 8 * kTiles);
  const OneMatrix<kFp8> a(p.shared_w1, 0), b(p.shared_w3, 0);
  Tokens<kRows, kTiles> tokens{};
  const float* scales[kTiles][2] = {};
  float sums[kTiles][4] = {};
  stream<kFp8>(sums, eight_rows(a, b, first), tokens, scales, [&] {
    wait_for_previous();
    if constexpr (kRows == Rows::shared) {
      const InputPlace place = input_place<kTiles>(memory, a.in);
      prepare_input(input_source(p, p.quantise), place);
      use_prepared(place, count, p.quantise, tokens, scales);
    } else {
      set_tokens(p, base, count, tokens, scales);
    }
  });
  const Parts<kTiles> parts{memory};
  parts.put(sums);
  __syncthreads();
  auto* hidden = static_cast<__nv_bfloat16*>(p.shared_hidden);
  for (int i = threadIdx.x; i < 8 * count; i += blockDim.x) {
    const int row = i % 8, token = i / 8;
    if (first + row < a.out)
      hidden[static_cast<i64>(base + token) * a.out + first + row] =
          __float2bfloat16_rn(silu(parts.get(row, token)) * parts.get(row + 8, token));
  }
}

// The normalised tokens for the routed experts.
template <int kTiles>
__device__ void normed_rows(const MoeArgs& p, float* memory) {
  wait_for_previous();
  void* to = p.quantise ? static_cast<void*>(p.x_codes.data) : p.normed;
  prepare_input(input_source(p, p.quantise), input_place<kTiles>(memory, static_cast<int>(p.gate.in)),
                {to, p.x_codes.scale});
}

// Block (chunk of tokens, tile). kShared: rows of the shared experts' product.
template <bool kFp8, Rows kRows, Rows kShared, int kTiles>
__global__ void __launch_bounds__(256) moe_gate_kernel(const __grid_constant__ MoeArgs p) {
  extern __shared__ __align__(16) float memory[];
  let_next_start();
  const int gates = static_cast<int>(p.gate.out + 15) / 16, shared = static_cast<int>(p.shared_w1.out + 7) / 8,
            base = static_cast<int>(blockIdx.x) * 8 * kTiles;
  int tile = static_cast<int>(blockIdx.y);
  if (tile < gates) return gate_tile<kRows, kTiles>(p, tile, base, memory);
  tile -= gates;
  if (tile < shared) return shared_tile<kFp8, kShared, kTiles>(p, tile, base, memory);
  if constexpr (kRows == Rows::shared) normed_rows<kTiles>(p, memory);
}

template <bool kFp8, Rows kRows, Rows kShared, int kTiles>
void launch_moe_gate(Stream& s, const MoeArgs& p) {
  const i64 tiles = (p.gate.out + 15) / 16 + (p.shared_w1.out + 7) / 8 + (kRows == Rows::shared ? 1 : 0);
  const int warps = warps_for(tiles, p.gate.in, 4, 8, s.device.multiprocessors),
            chunks = (p.tokens + 8 * kTiles - 1) / (8 * kTiles);
  std::size_t shared = Parts<kTiles>::bytes(warps);
  if (kRows == Rows::shared) shared += InputPlace::bytes(p.tokens, p.gate.in);
  if (kTiles == 1) {
    const std::size_t routing = route_bytes(p.route) * static_cast<std::size_t>(warps), lists = list_bytes(p);
    shared = shared > routing ? shared : routing;
    shared = shared > lists ? shared : lists;
  }
  launch(moe_gate_kernel<kFp8, kRows, kShared, kTiles>,
         {.name = "moe_gate",
          .grid = dim3(static_cast<unsigned>(chunks), static_cast<unsigned>(tiles)),
          .block = static_cast<unsigned>(warps * 32),
          .shared = shared,
          .early = true,
          .at_once = p.tokens > 8 ? 3 : 0},
         s, p);
}

template <bool kFp8, Rows kShared>
void dispatch_moe_gate(Stream& s, const MoeArgs& p) {
  if (p.tokens <= 8) return launch_moe_gate<kFp8, Rows::bf16, kShared, 1>(s, p);
  if (p.tokens <= 32) return launch_moe_gate<kFp8, Rows::bf16, kShared, 4>(s, p);
  launch_moe_gate<kFp8, Rows::bf16, kShared, 8>(s, p);
}

}  // namespace fathom::cuda
