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
    tokens.row[n] =
        static_cast<const char*>(p.x) + min(n * 8 + g, p.tokens - 1) * p.x_stride * (kRows == Rows::normed ? 4 : 2);
}

// 16 logits of all tokens; the last of these tiles to finish routes.
template <Rows kRows, int kTiles>
__device__ void gate_tile(const SmallMoe& p, int tile, float* memory) {
  __shared__ bool last;
  Tokens<kRows, kTiles> tokens{};
  const float* scales[kTiles][2] = {};
  float sums[kTiles][4] = {};
  stream<false>(sums, sixteen_rows(OneMatrix<false>(p.gate, 0), tile * 16), tokens, scales, [&] {
    wait_for_previous();
    set_tokens(p, tokens);
  });
  const Parts<kTiles> parts{memory};
  parts.put(sums);
  if constexpr (kRows == Rows::normed) parts.put_squares(tokens.squares);
  __syncthreads();
  auto* logits = const_cast<float*>(p.route.logits);
  for (int i = threadIdx.x; i < 16 * p.tokens; i += blockDim.x) {
    const int row = tile * 16 + i % 16, token = i / 16;
    if (row >= p.gate.out) continue;
    const float factor = kRows == Rows::normed ? parts.factor(token, static_cast<int>(p.gate.in), p.eps) : 1.0f;
    __stcg(logits + token * p.route.logits_stride + row, parts.get(i % 16, token) * factor);
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(p.counter, 1) == static_cast<int>(p.gate.out + 15) / 16 - 1;
    if (last) *p.counter = 0;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  const int warps = blockDim.x / 32, warp = threadIdx.x / 32;
  float* mine = memory + route_bytes(p.route) / sizeof(float) * warp;
  for (int t = warp; t < p.tokens; t += warps) route_token(p.route, t, mine);
}

// 8 of the shared experts' hidden values of all tokens.
template <bool kFp8, Rows kRows, int kTiles>
__device__ void shared_tile(const SmallMoe& p, int tile, float* memory) {
  const int first = tile * 8;
  const OneMatrix<kFp8> a(p.shared_w1, 0), b(p.shared_w3, 0);
  Tokens<kRows, kTiles> tokens{};
  const float* scales[kTiles][2] = {};
  float sums[kTiles][4] = {};
  stream<kFp8>(sums, eight_rows(a, b, first), tokens, scales, [&] {
    wait_for_previous();
    set_tokens(p, tokens);
  });
  const Parts<kTiles> parts{memory};
  parts.put(sums);
  if constexpr (kRows == Rows::normed) parts.put_squares(tokens.squares);
  __syncthreads();
  auto* hidden = static_cast<__nv_bfloat16*>(p.shared_hidden);
  for (int i = threadIdx.x; i < 8 * p.tokens; i += blockDim.x) {
    const int row = i % 8, token = i / 8;
    if (first + row >= a.out) continue;
    const float factor = kRows == Rows::normed ? parts.factor(token, a.in, p.eps) : 1.0f;
    hidden[static_cast<i64>(token) * a.out + first + row] =
        __float2bfloat16_rn(silu(parts.get(row, token) * factor) * (parts.get(row + 8, token) * factor));
  }
}

// The normalised token as bf16, for the routed experts.
__device__ void normed_row(const SmallMoe& p, int token, float* memory) {
  wait_for_previous();
  const float* x = static_cast<const float*>(p.x) + token * p.x_stride;
  float sum = 0;
  for (int i = threadIdx.x; i < p.gate.in; i += blockDim.x) sum += x[i] * x[i];
  const float factor = 1.0f / sqrtf(block_sum(sum, memory) / static_cast<float>(p.gate.in) + p.eps);
  auto* y = static_cast<__nv_bfloat16*>(p.normed) + token * p.gate.in;
  for (int i = threadIdx.x; i < p.gate.in; i += blockDim.x) y[i] = __float2bfloat16_rn(x[i] * factor * p.gain[i]);
}

template <bool kFp8, Rows kRows, int kTiles>
__global__ void __launch_bounds__(256) moe_gate_kernel(const SmallMoe p) {
  extern __shared__ float memory[];
  let_next_start();
  const int gates = static_cast<int>(p.gate.out + 15) / 16, shared = static_cast<int>(p.shared_w1.out + 7) / 8;
  int tile = static_cast<int>(blockIdx.x);
  if (tile < gates) return gate_tile<kRows, kTiles>(p, tile, memory);
  tile -= gates;
  if (tile < shared) return shared_tile<kFp8, kRows, kTiles>(p, tile, memory);
  if constexpr (kRows == Rows::normed) normed_row(p, tile - shared, memory);
}

template <bool kFp8, Rows kRows, int kTiles>
void launch(cudaStream_t s, const SmallMoe& p) {
  const i64 tiles = (p.gate.out + 15) / 16 + (p.shared_w1.out + 7) / 8 + (kRows == Rows::normed ? p.tokens : 0);
  const int warps = warps_for(tiles, p.gate.in, 4, 8);
  const std::size_t routing = route_bytes(p.route) * static_cast<std::size_t>(warps),
                    parts = Parts<kTiles>::bytes(warps);
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
