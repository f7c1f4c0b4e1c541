// After attention: the parts of each context added up, and the way back from the latent to values.
#include "kernels/cuda/attention/context.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear/gemv_mainloop.cuh"

namespace fathom::cuda {
namespace {

constexpr int kThreads = 128, kMostParts = 32, kMostTokens = 8;
constexpr int kRowBytes = kRank * 2 + 16;

// The weighted mean of a token's and head's parts, four columns a thread, into `to`. At most 32 parts.
__device__ void mean_of_parts(const MlaArgs& p, int t, int head, __nv_bfloat16* to) {
  const int lane = threadIdx.x % 32, parts = divide(span_of(p.seqs, t).keys, p.splits).parts;
  const i64 at = (static_cast<i64>(t) * p.heads + head) * p.splits;
  const float sum = lane < parts ? p.sums[at + lane] : -INFINITY, top = warp_max(sum);
  const float weight = lane < parts ? exp2f(sum - top) : 0;
  const float factor = parts > 0 ? 1 / warp_sum(weight) : 0;
  const float* from = p.parts + at * kRank + threadIdx.x * 4;
  float4 o{};
  for (int base = 0; base < parts; base += 8) {
    float4 x[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = *reinterpret_cast<const float4*>(from + min(base + i, parts - 1) * kRank);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float w = __shfl_sync(0xffffffffu, weight, base + i);
      o.x += w * x[i].x, o.y += w * x[i].y, o.z += w * x[i].z, o.w += w * x[i].w;
    }
  }
  reinterpret_cast<uint2*>(to)[threadIdx.x] = {pack_bf16(o.x * factor, o.y * factor),
                                               pack_bf16(o.z * factor, o.w * factor)};
}

// Block (16 values, head): o = wv_b times the mean of the parts, for up to 8 tokens.
__global__ void __launch_bounds__(kThreads) mla_values_kernel(const __grid_constant__ MlaArgs p) {
  extern __shared__ __align__(16) char memory[];
  let_next_start();
  const int first = static_cast<int>(blockIdx.x) * 16, head = static_cast<int>(blockIdx.y), g = threadIdx.x % 32 / 4;
  const OneMatrix<false> w(p.wv_b, head);
  const Parts<1> parts{reinterpret_cast<float*>(memory)};
  char* rows = memory + Parts<1>::bytes(kThreads / 32);
  Tokens<Rows::shared, 1> tokens{};
  const float* scales[1][2] = {};
  float sums[1][4] = {};
  stream<false>(sums, sixteen_rows(w, first), tokens, scales, [&] {
    wait_for_previous();
    for (int t = 0; t < p.tokens; ++t)
      mean_of_parts(p, t, head, reinterpret_cast<__nv_bfloat16*>(rows + t * kRowBytes));
    __syncthreads();
    tokens.row[0] = rows + min(g, p.tokens - 1) * kRowBytes;
  });
  parts.put(sums);
  __syncthreads();
  for (int i = threadIdx.x; i < 16 * p.tokens; i += kThreads)
    if (first + i % 16 < w.out)
      static_cast<__nv_bfloat16*>(p.o)[i / 16 * p.o_stride + head * p.o_head + first + i % 16] =
          __float2bfloat16_rn(parts.get(i % 16, i / 16));
}

// Block (token, head), four groups of threads for the parts: o_c.
__global__ void __launch_bounds__(4 * kThreads) mla_combine_kernel(const __grid_constant__ MlaArgs p) {
  __shared__ float weights[MlaArgs::kMostSplits];
  __shared__ float4 others[3][kThreads];
  __shared__ float factor;
  let_next_start();
  wait_for_previous();
  const int group = threadIdx.x / kThreads, column = threadIdx.x % kThreads, lane = threadIdx.x % 32;
  const int parts = divide(span_of(p.seqs, static_cast<int>(blockIdx.x) / p.heads).keys, p.splits).parts;
  const float* sums = p.sums + static_cast<i64>(blockIdx.x) * p.splits;
  const float* from = p.parts + static_cast<i64>(blockIdx.x) * p.splits * kRank + column * 4;
  if (threadIdx.x < 32) {
    float top = -INFINITY, total = 0;
    for (int i = lane; i < parts; i += 32) top = fmaxf(top, sums[i]);
    top = warp_max(top);
    for (int i = lane; i < parts; i += 32) total += weights[i] = exp2f(sums[i] - top);
    total = warp_sum(total);
    if (lane == 0) factor = parts > 0 ? 1 / total : 0;
  }
  __syncthreads();
  float4 o{};
#pragma unroll 8
  for (int i = group; i < parts; i += 4) {
    const float4 x = *reinterpret_cast<const float4*>(from + static_cast<i64>(i) * kRank);
    const float w = weights[i];
    o.x += w * x.x, o.y += w * x.y, o.z += w * x.z, o.w += w * x.w;
  }
  if (group > 0) others[group - 1][column] = o;
  __syncthreads();
  if (group > 0) return;
  for (int i = 0; i < 3; ++i) {
    const float4 x = others[i][column];
    o.x += x.x, o.y += x.y, o.z += x.z, o.w += x.w;
  }
  reinterpret_cast<uint2*>(static_cast<__nv_bfloat16*>(p.o_c) + static_cast<i64>(blockIdx.x) * kRank)[column] = {
      pack_bf16(o.x * factor, o.y * factor), pack_bf16(o.z * factor, o.w * factor)};
}

}  // namespace

bool mla_values_fit(const MlaArgs& p) {
  // Every block of a head reads all of its parts: cheap only as long as they are few.
  return p.splits > 1 && p.splits <= kMostParts && p.tokens <= kMostTokens && p.heads * p.tokens * p.splits <= 512;
}

void mla_values(Stream& s, const MlaArgs& p) {
  const dim3 grid(static_cast<unsigned>((p.wv_b.out + 15) / 16), static_cast<unsigned>(p.heads));
  const std::size_t shared = Parts<1>::bytes(kThreads / 32) + static_cast<std::size_t>(p.tokens) * kRowBytes;
  launch_early(mla_values_kernel, "mla_values", grid, kThreads, shared, s, p);
}

void mla_combine(Stream& s, const MlaArgs& p) {
  if (p.splits == 1) return;
  launch_early(mla_combine_kernel, "mla_combine", static_cast<unsigned>(p.tokens * p.heads), 4 * kThreads, 0, s, p);
}

}  // namespace fathom::cuda
