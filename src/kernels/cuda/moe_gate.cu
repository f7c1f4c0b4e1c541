// The gate and the shared experts' first half in one launch: both need the normalised tokens and nothing else. The
// block that finishes the last logits routes all tokens.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/route.cuh"
#include "kernels/cuda/small.cuh"

namespace fathom::cuda {
namespace {

template <Rows kRows, int kTiles>
__device__ void set_tokens(const SmallMoe& p, Tokens<kRows, kTiles>& tokens) {
  const int g = threadIdx.x % 32 / 4;
  tokens.gain = p.gain;
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
    tokens.row[n] = n * 8 + g < p.tokens
                        ? static_cast<const char*>(p.x) + (n * 8 + g) * p.x_stride * (kRows == Rows::normed ? 4 : 2)
                        : nullptr;
}

template <Rows kRows, int kTiles>
__device__ void gate_tile(const SmallMoe& p, int tile, float* memory) {
  __shared__ bool last;
  const Rows16 w[1] = {
      {static_cast<const char*>(p.gate.data), nullptr, static_cast<int>(p.gate.out), static_cast<int>(p.gate.in)}};
  Tokens<kRows, kTiles> tokens{};
  const float* scales[kTiles][2] = {};
  float sums[1][kTiles][4] = {};
  stream<false, kRows, kTiles, 1>(sums, w, tile * 16, tokens, scales, [&] {
    wait_for_previous();
    set_tokens(p, tokens);
  });
  const Parts<kTiles, 1> parts{memory};
  parts.put(sums);
  if constexpr (kRows == Rows::normed) parts.put_squares(tokens.squares);
  __syncthreads();
  auto* logits = const_cast<float*>(p.route.logits);
  for (int i = threadIdx.x; i < 16 * p.tokens; i += blockDim.x) {
    const int row = tile * 16 + i % 16, token = i / 16;
    if (row >= p.gate.out) continue;
    const float factor = kRows == Rows::normed ? parts.factor(token, static_cast<int>(p.gate.in), p.eps) : 1.0f;
    __stcg(logits + token * p.route.logits_stride + row, parts.get(0, i % 16, token) * factor);
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    const int tiles = static_cast<int>(p.gate.out + 15) / 16;
    last = atomicAdd(p.counter, 1) == tiles - 1;
    if (last) *p.counter = 0;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  const int warps = blockDim.x / 32, warp = threadIdx.x / 32;
  float* mine = memory + route_bytes(p.route) / sizeof(float) * warp;
  for (int t = warp; t < p.tokens; t += warps) route_token(p.route, t, mine);
}

template <bool kFp8, Rows kRows, int kTiles>
__device__ void shared_tile(const SmallMoe& p, int tile, float* memory) {
  const int first = tile * 16;
  const auto rows = [](const Matrix& w) {
    return Rows16{static_cast<const char*>(w.data), w.scale, static_cast<int>(w.out), static_cast<int>(w.in)};
  };
  const Rows16 w[2] = {rows(p.shared_w1), rows(p.shared_w3)};
  Tokens<kRows, kTiles> tokens{};
  const float* scales[kTiles][2] = {};
  float sums[2][kTiles][4] = {};
  stream<kFp8, kRows, kTiles, 2>(sums, w, first, tokens, scales, [&] {
    wait_for_previous();
    set_tokens(p, tokens);
  });
  const Parts<kTiles, 2> parts{memory};
  parts.put(sums);
  if constexpr (kRows == Rows::normed) parts.put_squares(tokens.squares);
  __syncthreads();
  auto* hidden = static_cast<__nv_bfloat16*>(p.shared_hidden);
  for (int i = threadIdx.x; i < 16 * p.tokens; i += blockDim.x) {
    const int row = i % 16, token = i / 16;
    if (first + row >= p.shared_w1.out) continue;
    const float factor = kRows == Rows::normed ? parts.factor(token, static_cast<int>(p.shared_w1.in), p.eps) : 1.0f;
    hidden[static_cast<i64>(token) * p.shared_w1.out + first + row] =
        __float2bfloat16_rn(silu(parts.get(0, row, token) * factor) * (parts.get(1, row, token) * factor));
  }
}

template <bool kFp8, Rows kRows, int kTiles>
__global__ void __launch_bounds__(256) moe_gate_kernel(const SmallMoe p) {
  extern __shared__ float memory[];
  let_next_start();
  const int gates = static_cast<int>(p.gate.out + 15) / 16;
  if (static_cast<int>(blockIdx.x) < gates)
    gate_tile<kRows, kTiles>(p, static_cast<int>(blockIdx.x), memory);
  else
    shared_tile<kFp8, kRows, kTiles>(p, static_cast<int>(blockIdx.x) - gates, memory);
}

template <bool kFp8, Rows kRows, int kTiles>
void launch(cudaStream_t s, const SmallMoe& p) {
  const i64 tiles = (p.gate.out + 15) / 16 + (p.shared_w1.out + 15) / 16;
  const int warps = kTiles >= 4 ? 4 : 8;
  const std::size_t routing = route_bytes(p.route) * static_cast<std::size_t>(warps),
                    parts = Parts<kTiles, 2>::bytes(warps);
  launch_early(moe_gate_kernel<kFp8, kRows, kTiles>, "moe_gate", static_cast<unsigned>(tiles),
               static_cast<unsigned>(warps * 32), parts > routing ? parts : routing, s, p);
}

template <bool kFp8>
void dispatch(cudaStream_t s, const SmallMoe& p) {
  if (p.gain != nullptr) return launch<kFp8, Rows::normed, 1>(s, p);
  if (p.tokens <= 8) return launch<kFp8, Rows::bf16, 1>(s, p);
  if (p.tokens <= 16) return launch<kFp8, Rows::bf16, 2>(s, p);
  if (p.tokens <= 32) return launch<kFp8, Rows::bf16, 4>(s, p);
  launch<kFp8, Rows::bf16, 8>(s, p);
}

}  // namespace

void moe_gate(cudaStream_t s, const SmallMoe& p) {
  p.shared_w1.type == Type::e4m3 ? dispatch<true>(s, p) : dispatch<false>(s, p);
}

}  // namespace fathom::cuda
