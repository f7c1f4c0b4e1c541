#include "ops/attention.h"

#include <algorithm>

#include "ops/check.h"
#include "ops/dequantized.h"

namespace fathom::ops {
namespace {

constexpr i64 kExpandedBytes = i64{1} << 28;  // of keys and values at a time: longer contexts take fewer heads

// Keys and values of heads first .. first + n of the cached rows kv [total_context, kv_lora_rank], into y
// [total_context, n, nope + v].
void expand(Context& ctx, const Tensor& y, const Tensor& kv, const LatentAttention& args, i64 first) {
  const i64 n = y.dim(1);
  if (!args.wk_b.defined()) {
    linear_into(ctx, y.view({y.dim(0), n * y.dim(2)}), kv, args.wkv_b);
    return;
  }
  const i64 nope = args.wk_b.dim(2), v = args.wv_b.dim(1);
  const Tensor every_head = kv.broadcast(1, n);
  head_matmul(ctx, y.narrow(2, 0, nope), every_head, args.wk_b.narrow(0, first, n), true);
  head_matmul(ctx, y.narrow(2, nope, v), every_head, args.wv_b.narrow(0, first, n));
}

void attend_expanded(Context& ctx, const Tensor& o, const Tensor& q, const LatentAttention& args,
                     const CacheLayer& cache, const Sequences& s) {
  const i64 heads = q.dim(1), c = cache.kv_lora_rank, rope = cache.width() - c, nope = q.dim(2) - rope, v = o.dim(2),
            total = s.total_context;
  const Tensor rows = ctx.arena.empty({total, cache.width()}, ctx.options.compute);
  run(ctx, op::GatherLatent{rows, cache, s});
  const auto [kv, k_pe] = split(rows, c, rope);
  const i64 bytes = std::max<i64>(total, 1) * (nope + v) * size_of(ctx.options.compute),
            group = args.wk_b.defined() ? std::clamp<i64>(kExpandedBytes / bytes, 1, heads) : heads;
  // Never less for a longer context, so that the largest pass bounds the others.
  const Tensor slab = ctx.arena.empty({std::min(std::max(kExpandedBytes, group * bytes), heads * bytes)}, DType::u8);
  for (i64 first = 0; first < heads; first += group) {
    const ArenaScope scope(ctx.arena);
    const i64 n = std::min(group, heads - first);
    const Tensor expanded(slab.data(), ctx.options.compute, {total, n, nope + v}, slab.device());
    expand(ctx, expanded, kv, args, first);
    run(ctx, op::AttendExpanded{o.narrow(1, first, n), q.narrow(1, first, n), expanded, k_pe, s, args.scale});
  }
}

void attend_latent(Context& ctx, const Tensor& o, const Tensor& q, const LatentAttention& args, const CacheLayer& cache,
                   const Sequences& s) {
  const i64 c = cache.kv_lora_rank, rope = cache.width() - c;
  const auto [q_nope, q_pe] = split(q, q.dim(2) - rope, rope);
  const Shape latent{q.dim(0), q.dim(1), c};
  const Tensor q_c = ctx.arena.empty(latent, ctx.options.compute), o_c = ctx.arena.empty(latent, ctx.options.compute);
  head_matmul(ctx, q_c, q_nope, args.wk_b);  // queries into the latent space
  run(ctx, op::AttendLatent{o_c, q_c, q_pe, cache, s, args.scale});
  head_matmul(ctx, o, o_c, args.wv_b);  // back to the width of values
}

// One run of sequences: q [T, H, nope + rope], kv_pe [T, kv_lora_rank + rope] -> o [T, H, v].
void attend(Context& ctx, const Tensor& o, const Tensor& q, const Tensor& kv_pe, const LatentAttention& args,
            const CacheLayer& cache, const Sequences& s) {
  if (!s.expanded && try_run(ctx, op::LatentAttention{o, q, kv_pe, args, cache, s})) return;
  const ArenaScope scope(ctx.arena);
  const i64 c = cache.kv_lora_rank, rope = cache.width() - c;
  const auto [kv, k_pe] = split(kv_pe, c, rope);
  run(ctx, op::Rope{split(q, q.dim(2) - rope, rope)[1], args.freqs, s.positions});
  run(ctx, op::Rope{split(kv_pe.view({kv_pe.dim(0), 1, c + rope}), c, rope)[1], args.freqs, s.positions});
  {
    const ArenaScope normed(ctx.arena);
    run(ctx, op::StoreLatent{cache, apply(ctx, {kv, args.kv_norm}), k_pe, s.slots});
  }
  (s.expanded ? attend_expanded : attend_latent)(ctx, o, q, args, cache, s);
}

}  // namespace

Tensor attention(Context& ctx, const Tensor& q, const Tensor& kv_pe, const LatentAttention& args,
                 const CacheLayer& cache, std::span<const Sequences> runs) {
  const i64 c = cache.kv_lora_rank, rope = cache.width() - c, tokens = q.dim(0), heads = q.dim(1),
            nope = q.dim(2) - rope;
  check_activation("attention", "q", q, 3);
  check_activation("attention", "kv_pe", kv_pe, 2);
  check_shape("attention", "kv_pe", kv_pe, {tokens, cache.width()});
  const i64 v = args.wk_b.defined() ? args.wv_b.dim(1) : args.wkv_b.out() / heads - nope;
  CHECK(nope > 0 && v > 0, "attention: q {} does not fit a cache of {} + {}", to_string(q.shape()), c, rope);
  if (args.wk_b.defined()) {
    check_shape("attention", "wk_b", args.wk_b, {heads, c, nope});
    check_shape("attention", "wv_b", args.wv_b, {heads, v, c});
  }
  const Tensor o = ctx.arena.empty({tokens, heads, v}, ctx.options.compute);
  for (const Sequences& s : runs) {
    CHECK(s.expanded || args.wk_b.defined(), "attention: latent attention needs wkv_b in two parts");
    check_integers("attention", "slots", s.slots, {s.tokens()});
    check_integers("attention", "seq_starts", s.seq_starts, {s.sequences() + 1});
    const auto part = [&](const Tensor& x) { return x.narrow(0, s.first_token, s.tokens()); };
    attend(ctx, part(o), part(q), part(kv_pe), args, cache, s);
  }
  return o;
}

std::vector<RunShape> attention_runs(std::span<const std::int32_t> seq_starts,
                                     std::span<const std::int32_t> context_lens, i64 expand_from) {
  std::vector<RunShape> runs;
  for (std::size_t s = 0; s < context_lens.size(); ++s) {
    const i64 tokens = seq_starts[s + 1] - seq_starts[s], context = context_lens[s];
    const bool expanded = tokens >= expand_from;
    const bool full = expanded && !runs.empty() && runs.back().total_context + context > kExpandedKeys;
    if (runs.empty() || runs.back().expanded != expanded || full)
      runs.push_back({.first = static_cast<i64>(s), .first_token = seq_starts[s], .expanded = expanded});
    RunShape& run = runs.back();
    ++run.count;
    run.tokens += tokens;
    run.total_context += context;
    run.max_context = std::max(run.max_context, context);
  }
  return runs;
}

}  // namespace fathom::ops
