// Before attention: queries into the latent space, and the new tokens' rows of the cache, in one launch.
#include "kernels/cuda/linear_small.cuh"

namespace fathom::cuda {
namespace {

constexpr int kRank = 512, kRope = 64;

// One block a token: normalises the latent, rotates the key, writes both.
__device__ void store_token(const SmallMla& p, int t, float* shared) {
  const auto* row = static_cast<const __nv_bfloat16*>(p.kv_pe) + t * p.kv_stride;
  const i64 slot = p.slots[t];
  float sum = 0;
  for (int i = threadIdx.x; i < kRank; i += blockDim.x) {
    const float value = __bfloat162float(row[i]);
    sum += value * value;
  }
  const float factor = 1.0f / sqrtf(block_sum(sum, shared) / kRank + p.eps);
  if (slot < 0) return;
  auto* to = static_cast<__nv_bfloat16*>(p.cache.data) + slot * p.cache.width;
  for (int i = threadIdx.x; i < kRank; i += blockDim.x)
    to[i] = __float2bfloat16_rn(__bfloat162float(row[i]) * factor * p.gain[i]);
  for (int i = threadIdx.x; i < kRope / 2; i += blockDim.x) {
    const float* angle = p.freqs + (static_cast<i64>(p.seqs.positions[t]) * (kRope / 2) + i) * 2;
    const float re = __bfloat162float(row[kRank + 2 * i]), im = __bfloat162float(row[kRank + 2 * i + 1]);
    to[kRank + 2 * i] = __float2bfloat16_rn(re * angle[0] - im * angle[1]);
    to[kRank + 2 * i + 1] = __float2bfloat16_rn(re * angle[1] + im * angle[0]);
  }
}

template <int kTiles>
__global__ void __launch_bounds__(128) mla_absorb_kernel(const SmallMla p, const SmallLinear product) {
  extern __shared__ float memory[];
  let_next_start();
  if (static_cast<int>(blockIdx.y) < p.heads) {
    small_tile<false, Rows::bf16, kTiles>(product, static_cast<int>(blockIdx.x), blockIdx.y, memory);
    return;
  }
  wait_for_previous();
  for (int t = static_cast<int>(blockIdx.x); t < p.tokens; t += static_cast<int>(gridDim.x)) store_token(p, t, memory);
}

template <int kTiles>
void launch(cudaStream_t s, const SmallMla& p, const SmallLinear& product) {
  launch_early(mla_absorb_kernel<kTiles>, "mla_absorb", dim3(kRank / 16, static_cast<unsigned>(p.heads + 1)), 32,
               Parts<kTiles, 1>::bytes(1), s, p, product);
}

}  // namespace

void mla_absorb(cudaStream_t s, const SmallMla& p) {
  SmallLinear product;
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
  launch<8>(s, p, product);
}

}  // namespace fathom::cuda
