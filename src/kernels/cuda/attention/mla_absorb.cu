// Before attention: queries into the latent space, and the new tokens' rows of the cache, in one launch.
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/linear/gemv.cuh"

namespace fathom::cuda {
namespace {

constexpr int kRank = 512, kRope = 64;

// One warp a token: normalises the latent, rotates the key, writes both. What does not come from the previous kernel is
// read before it has finished.
__device__ void store_token(const MlaArgs& p, int t) {
  const int lane = threadIdx.x;
  const i64 slot = p.slots[t];
  const float2 angle =
      reinterpret_cast<const float2*>(p.freqs)[static_cast<i64>(p.seqs.positions[t]) * (kRope / 2) + lane];
  float4 gain[4];
  for (int i = 0; i < 4; ++i) gain[i] = reinterpret_cast<const float4*>(p.gain)[lane * 2 + i / 2 * 64 + i % 2];
  wait_for_previous();
  const auto* row = static_cast<const __nv_bfloat16*>(p.kv_pe) + t * p.kv_stride;
  uint4 part[2];
  for (int i = 0; i < 2; ++i) part[i] = reinterpret_cast<const uint4*>(row)[lane + i * 32];
  const std::uint32_t key = reinterpret_cast<const std::uint32_t*>(row + kRank)[lane];
  float values[16], sum = 0;
  const auto widen = [](std::uint32_t pair, float& low, float& high) {
    low = __uint_as_float(pair << 16), high = __uint_as_float(pair & 0xffff0000u);
  };
  for (int i = 0; i < 2; ++i) {
    widen(part[i].x, values[i * 8], values[i * 8 + 1]), widen(part[i].y, values[i * 8 + 2], values[i * 8 + 3]);
    widen(part[i].z, values[i * 8 + 4], values[i * 8 + 5]), widen(part[i].w, values[i * 8 + 6], values[i * 8 + 7]);
  }
  for (const float value : values) sum += value * value;
  const float factor = 1.0f / sqrtf(warp_sum(sum) / kRank + p.eps);
  if (slot < 0) return;
  auto* to = static_cast<__nv_bfloat16*>(p.cache.data) + slot * p.cache.width;
  for (int i = 0; i < 2; ++i) {
    const float* v = values + i * 8;
    const float4 a = gain[i * 2], b = gain[i * 2 + 1];
    reinterpret_cast<uint4*>(to)[lane + i * 32] = {
        pack_bf16(v[0] * factor * a.x, v[1] * factor * a.y), pack_bf16(v[2] * factor * a.z, v[3] * factor * a.w),
        pack_bf16(v[4] * factor * b.x, v[5] * factor * b.y), pack_bf16(v[6] * factor * b.z, v[7] * factor * b.w)};
  }
  float re, im;
  widen(key, re, im);
  reinterpret_cast<std::uint32_t*>(to + kRank)[lane] =
      pack_bf16(re * angle.x - im * angle.y, re * angle.y + im * angle.x);
}

template <int kTiles>
__global__ void __launch_bounds__(128)
    mla_absorb_kernel(const __grid_constant__ MlaArgs p, const __grid_constant__ GemvPlan product) {
  extern __shared__ float memory[];
  let_next_start();
  if (static_cast<int>(blockIdx.z) < p.heads) {
    gemv_tile<false, Rows::bf16, kTiles>(product, static_cast<int>(blockIdx.y), blockIdx.z,
                                         static_cast<int>(blockIdx.x) * 8 * kTiles, memory);
    return;
  }
  const int blocks = static_cast<int>(gridDim.x * gridDim.y),
            mine = static_cast<int>(blockIdx.y * gridDim.x + blockIdx.x);
  for (int t = mine; t < p.tokens; t += blocks) store_token(p, t);
}

template <int kTiles>
void launch(Stream& s, const MlaArgs& p, const GemvPlan& product) {
  const int chunks = (p.tokens + 8 * kTiles - 1) / (8 * kTiles);
  launch_early(mla_absorb_kernel<kTiles>, "mla_absorb",
               dim3(static_cast<unsigned>(chunks), kRank / 16, static_cast<unsigned>(p.heads + 1)), 32,
               Parts<kTiles>::bytes(1), s, p, product);
}

}  // namespace

void mla_absorb(Stream& s, const MlaArgs& p) {
  GemvPlan product;
  product.part[0] = {
      {p.wk_b.data, nullptr, Type::bf16, false, 1, kRank, p.nope}, const_cast<void*>(p.q_c), Type::bf16, p.q_c_stride};
  product.tokens = p.tokens;
  product.heads = p.heads;
  product.x = p.q;
  product.x_stride = p.q_stride;
  product.x_head = p.nope + kRope;
  product.w_head = static_cast<i64>(kRank) * p.nope;
  product.y_head = p.q_c_head;
  if (p.tokens <= 8) return launch<1>(s, p, product);
  if (p.tokens <= 16) return launch<2>(s, p, product);
  if (p.tokens <= 32) return launch<4>(s, p, product);
  launch<kMostTiles>(s, p, product);
}

}  // namespace fathom::cuda
