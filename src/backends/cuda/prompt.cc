// Attention of long chunks of new tokens: keys and values of each head are made from the latent cache.
//
// The choice between both forms stands here. Over the latent, a token and key of one head cost 2 (576 + 512)
// operations; expanded they cost 2 (192 + 128), and each key 2 * 512 * 256 once for all new tokens of its sequence. By
// operations the forms meet at about 170 new tokens a sequence. By the kernels' measured rates (bench/results) they
// meet at about 34, since the expanded kernel reads a key once for 128 tokens.
#include <algorithm>

#include "backends/cuda/arrays.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/decode.h"

namespace fathom {
namespace {

constexpr i64 kExpandFrom = 64;          // new tokens a sequence, on average
constexpr i64 kExpandedBytes = 1 << 28;  // of keys and values at a time: longer contexts take fewer heads at a time

bool is_bf16(const Tensor& x) { return x.dtype() == DType::bf16; }

}  // namespace

bool CudaBackend::prompt_attention(const Tensor& o, const Tensor& q, const Tensor& kv_pe, const LatentAttention& args,
                                   const CacheLayer& cache, const Batch& batch) {
  const i64 tokens = q.dim(0), heads = q.dim(1), c = cache.kv_lora_rank, width = cache.width(), rope = width - c,
            nope = q.dim(2) - rope, total = batch.total_context;
  if (!gpu_.sm90a || tokens < kExpandFrom * std::max<i64>(batch.sequences(), 1) || total == 0 ||
      !batch.context_starts.defined() || nope != 128 || rope != 64 || o.dim(2) != 128 || c % 64 != 0 ||
      !is_bf16(cache.latent) || !is_bf16(o) || !is_bf16(q) || !is_bf16(kv_pe) || !is_bf16(args.wk_b) ||
      !aligned_rows(q) || q.stride(1) % 8 != 0)
    return false;
  const auto [q_nope, q_pe] = split(q, nope, rope);
  rope_(q_pe, args.freqs, batch.positions);
  rope_(split(kv_pe.view({tokens, 1, width}), c, rope)[1], args.freqs, batch.positions);
  const auto [kv, k_pe] = split(kv_pe, c, rope);

  const i64 group = std::clamp<i64>(kExpandedBytes / (total * 512), 1, heads);
  const i64 latent_bytes = aligned(total * width * 2), normed_bytes = aligned(tokens * c * 2);
  auto* scratch = static_cast<std::byte*>(
      workspace(static_cast<std::size_t>(latent_bytes + std::max(normed_bytes, total * group * 512))));
  const Tensor normed(scratch + latent_bytes, DType::bf16, {tokens, c}, device());
  rms_norm(normed, kv, args.kv_norm, args.eps);
  store_latent(cache, normed, k_pe, batch.slots);
  const Tensor rows(scratch, DType::bf16, {total, width}, device());
  gather_latent(rows, cache, batch);

  cuda::Product p;
  p.x = rows.data();
  p.x_stride = width;
  p.rows = total;
  p.w_head = nope * c;
  for (i64 first = 0; first < heads; first += group) {
    const i64 n = std::min(group, heads - first);
    const Tensor expanded(scratch + latent_bytes, DType::bf16, {total, n, nope + o.dim(2)}, device());
    p.heads = static_cast<int>(n);
    p.y_head = expanded.stride(1);
    p.part[0].y_stride = expanded.stride(0);
    p.part[0].y = expanded.data();
    p.part[0].w = {args.wk_b.narrow(0, first, n).data(), nullptr, cuda::Type::bf16, false, n, nope, c};
    p.w_transposed = true;
    product(p);
    p.part[0].y = expanded.as<bf16_bits>() + nope;
    p.part[0].w.data = args.wv_b.narrow(0, first, n).data();
    p.w_transposed = false;
    product(p);
    cuda::attend_prompt(stream(), gpu_, array_of(o.narrow(1, first, n)), array_of(q.narrow(1, first, n)),
                        {array_of(expanded), array_of(split(rows, c, rope)[1])}, sequences_of(batch), args.scale);
  }
  return true;
}

}  // namespace fathom
