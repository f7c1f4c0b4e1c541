#include "ops/fused.h"

#include <algorithm>

#include "ops/dequantized.h"

namespace fathom::ops {

bool fusable(const Context& ctx) { return ctx.options.fused && ctx.options.compute == DType::bf16; }

std::vector<Tensor> norm_linear(Context& ctx, const Tensor& x, const Tensor& gain, float eps,
                                std::span<const NormedProduct> products) {
  std::vector<Tensor> ys;
  std::vector<Weight> ws;
  for (const NormedProduct& p : products) {
    CHECK(x.rank() == 2 && p.w.in() == x.dim(1), "norm_linear: x has shape {}, the weight takes {}",
          to_string(x.shape()), p.w.in());
    ys.push_back(ctx.arena.empty({x.dim(0), p.w.out()}, p.out.value_or(ctx.options.compute)));
    ws.push_back(p.w);
  }
  const bool plain = std::ranges::any_of(ws, [&](const Weight& w) { return !supported(ctx, {&w}); });
  if (!plain && fusable(ctx) && ctx.backend.norm_linear(ys, x, gain, eps, ws, ctx.options.gemm)) return ys;
  const ArenaScope scope(ctx.arena);
  const Tensor normed = rms_norm(ctx, x, gain, eps);
  for (std::size_t i = 0; i < ys.size(); ++i) linear_into(ctx, ys[i], normed, ws[i]);
  return ys;
}

void linear_add_(Context& ctx, const Tensor& h, const Tensor& x, const Weight& w) {
  if (fusable(ctx) && supported(ctx, {&w}) && ctx.backend.linear_add_(h, x, w, ctx.options.gemm)) return;
  const ArenaScope scope(ctx.arena);
  add_(ctx, h, linear(ctx, x, w, DType::f32));
}

Tensor grouped_swiglu(Context& ctx, const Tensor& x, const Weight& w1, const Weight& w3, const Tensor& offsets) {
  const Tensor y = ctx.arena.empty({x.dim(0), w1.out()}, ctx.options.compute);
  if (fusable(ctx) && supported(ctx, {&w1, &w3}) && ctx.backend.grouped_swiglu(y, x, w1, w3, offsets, ctx.options.gemm))
    return y;
  const ArenaScope scope(ctx.arena);
  const Tensor gate = grouped_linear(ctx, x, w1, offsets), up = grouped_linear(ctx, x, w3, offsets);
  ctx.backend.silu_mul(y, gate, up);
  return y;
}

Tensor latent_attention(Context& ctx, const Tensor& q, const Tensor& kv_pe, const LatentAttention& args,
                        const CacheLayer& cache, const Batch& batch) {
  const i64 tokens = q.dim(0), c = cache.kv_lora_rank, rope = cache.width() - c, nope = q.dim(2) - rope;
  const Tensor o = ctx.arena.empty({tokens, q.dim(1), args.wv_b.dim(1)}, ctx.options.compute);
  if (fusable(ctx) && ctx.backend.latent_attention(o, q, kv_pe, args, cache, batch)) return o;
  const ArenaScope scope(ctx.arena);
  const auto [q_nope, q_pe] = split(q, nope, rope);
  rope_(ctx, q_pe, args.freqs, batch.positions);
  rope_(ctx, split(kv_pe.view({tokens, 1, c + rope}), c, rope)[1], args.freqs, batch.positions);
  const auto [kv, k_pe] = split(kv_pe, c, rope);
  store_latent(ctx, cache, rms_norm(ctx, kv, args.kv_norm, args.eps), k_pe, batch.slots);
  const Tensor q_c = head_matmul(ctx, q_nope, args.wk_b);  // queries into the latent space
  const Tensor o_c = attend_latent(ctx, q_c, q_pe, cache, batch, args.scale);
  ctx.backend.head_matmul(o, o_c, args.wv_b);  // back to the width of values
  return o;
}

bool advance(Context& ctx, const Batch& batch, const Tensor& drawn, const Tensor& step, const Tensor& log,
             i64 block_size) {
  CHECK(batch.tokens() == batch.sequences() && drawn.dim(0) == batch.tokens() && log.dim(1) == batch.tokens(),
        "advance: {} tokens of {} sequences, {} drawn", batch.tokens(), batch.sequences(), drawn.dim(0));
  return ctx.backend.advance(batch, drawn, step, log, block_size);
}

}  // namespace fathom::ops
