#include "ops/ops.h"

#include "ops/dequantized.h"

namespace fathom::ops {
namespace {

bool is_activation(const Tensor& x) { return x.dtype() == DType::f32 || x.dtype() == DType::bf16; }

void check_shape(const char* op, const char* what, const Tensor& x, const Shape& expected) {
  CHECK(x.shape() == expected, "{}: {} has shape {}, expected {}", op, what, to_string(x.shape()), to_string(expected));
}

void check_activation(const char* op, const char* what, const Tensor& x, int rank) {
  CHECK(is_activation(x), "{}: {} is {}, expected f32 or bf16", op, what, name_of(x.dtype()));
  CHECK(x.rank() == rank, "{}: {} has shape {}, expected {} dimensions", op, what, to_string(x.shape()), rank);
  CHECK(x.numel() == 0 || x.stride(rank - 1) == 1, "{}: the last dimension of {} is not contiguous", op, what);
}

void check_integers(const char* op, const char* what, const Tensor& x, const Shape& expected) {
  CHECK(x.dtype() == DType::i32, "{}: {} is {}, expected i32", op, what, name_of(x.dtype()));
  check_shape(op, what, x, expected);
}

void check_weight(const char* op, const Weight& w, int rank) {
  CHECK(w.shape().rank() == rank, "{}: weight has shape {}, expected {} dimensions", op, to_string(w.shape()), rank);
  CHECK(w.data.dtype() == w.format->element(), "{}: weight is {}, its format is {}", op, name_of(w.data.dtype()),
        w.format->name());
  CHECK(w.scale.defined() == w.format->has_scale() && w.zero.defined() == w.format->has_zero(),
        "{}: format {} and scales disagree", op, w.format->name());
}

// The reference's act_quant asserts this.
void check_quantizable(const Context& ctx, const Weight& w) {
  const i64 group = w.format->activation_group();
  CHECK(ctx.options.gemm != GemmMode::fp8 || group == 0 || w.in() % group == 0,
        "Last dimension size must be divisible by block_size (block_size={}); it is {}: use --gemm bf16", group,
        w.in());
}

DType out_type(const Context& ctx, std::optional<DType> out) { return out.value_or(ctx.options.compute); }

}  // namespace

Tensor embedding(Context& ctx, const Tensor& table, const Tensor& ids, i64 first) {
  check_activation("embedding", "table", table, 2);
  check_integers("embedding", "ids", ids, {ids.dim(0)});
  Tensor y = ctx.arena.empty({ids.dim(0), table.dim(1)}, DType::f32);
  ctx.backend.embedding(y, table, ids, first);
  return y;
}

Tensor gather_rows(Context& ctx, const Tensor& x, const Tensor& rows) {
  check_activation("gather_rows", "x", x, 2);
  check_integers("gather_rows", "rows", rows, {rows.dim(0)});
  Tensor y = ctx.arena.empty({rows.dim(0), x.dim(1)}, x.dtype());
  ctx.backend.gather_rows(y, x, rows);
  return y;
}

void copy(Context& ctx, const Tensor& y, const Tensor& x) {
  CHECK(is_activation(x) && is_activation(y), "copy: {} to {}", name_of(x.dtype()), name_of(y.dtype()));
  check_shape("copy", "y", y, x.shape());
  ctx.backend.cast(y, x);
}

void add_(Context& ctx, const Tensor& x, const Tensor& y) {
  CHECK(is_activation(x) && is_activation(y) && x.contiguous() && y.contiguous(), "add_: needs contiguous f32 or bf16");
  check_shape("add_", "y", y, x.shape());
  ctx.backend.add_(x, y);
}

Tensor rms_norm(Context& ctx, const Tensor& x, const Tensor& weight, float eps) {
  check_activation("rms_norm", "x", x, 2);
  check_shape("rms_norm", "weight", weight, {x.dim(1)});
  CHECK(weight.dtype() == DType::f32, "rms_norm: weight is {}, expected f32", name_of(weight.dtype()));
  Tensor y = ctx.arena.empty(x.shape(), ctx.options.compute);
  ctx.backend.rms_norm(y, x, weight, eps);
  return y;
}

Tensor silu_mul(Context& ctx, const Tensor& a, const Tensor& b) {
  check_activation("silu_mul", "a", a, 2);
  check_activation("silu_mul", "b", b, 2);
  check_shape("silu_mul", "b", b, a.shape());
  Tensor y = ctx.arena.empty(a.shape(), ctx.options.compute);
  ctx.backend.silu_mul(y, a, b);
  return y;
}

Tensor linear(Context& ctx, const Tensor& x, const Weight& w, std::optional<DType> out) {
  check_activation("linear", "x", x, 2);
  check_weight("linear", w, 2);
  check_shape("linear", "x", x, {x.dim(0), w.in()});
  check_quantizable(ctx, w);
  Tensor y = ctx.arena.empty({x.dim(0), w.out()}, out_type(ctx, out));
  linear_into(ctx, y, x, w);
  return y;
}

Tensor grouped_linear(Context& ctx, const Tensor& x, const Weight& w, const Tensor& offsets, std::optional<DType> out) {
  check_activation("grouped_linear", "x", x, 2);
  check_weight("grouped_linear", w, 3);
  check_shape("grouped_linear", "x", x, {x.dim(0), w.in()});
  check_integers("grouped_linear", "offsets", offsets, {w.shape()[0] + 1});
  check_quantizable(ctx, w);
  Tensor y = ctx.arena.empty({x.dim(0), w.out()}, out_type(ctx, out));
  grouped_linear_into(ctx, y, x, w, offsets);
  return y;
}

Tensor head_matmul(Context& ctx, const Tensor& x, const Tensor& w) {
  check_activation("head_matmul", "x", x, 3);
  check_activation("head_matmul", "w", w, 3);
  check_shape("head_matmul", "x", x, {x.dim(0), w.dim(0), w.dim(2)});
  Tensor y = ctx.arena.empty({x.dim(0), w.dim(0), w.dim(1)}, ctx.options.compute);
  ctx.backend.head_matmul(y, x, w);
  return y;
}

void rope_(Context& ctx, const Tensor& x, const Tensor& freqs, const Tensor& positions) {
  check_activation("rope_", "x", x, 3);
  check_shape("rope_", "freqs", freqs, {freqs.dim(0), x.dim(2) / 2, 2});
  check_integers("rope_", "positions", positions, {x.dim(0)});
  ctx.backend.rope_(x, freqs, positions);
}

void store_latent(Context& ctx, const CacheLayer& cache, const Tensor& kv, const Tensor& k_pe, const Tensor& slots) {
  check_activation("store_latent", "kv", kv, 2);
  check_activation("store_latent", "k_pe", k_pe, 2);
  check_shape("store_latent", "kv", kv, {kv.dim(0), cache.kv_lora_rank});
  check_shape("store_latent", "k_pe", k_pe, {kv.dim(0), cache.width() - cache.kv_lora_rank});
  check_integers("store_latent", "slots", slots, {kv.dim(0)});
  ctx.backend.store_latent(cache, kv, k_pe, slots);
}

Tensor attend_latent(Context& ctx, const Tensor& q_c, const Tensor& q_pe, const CacheLayer& cache, const Batch& batch,
                     float scale) {
  check_activation("attend_latent", "q_c", q_c, 3);
  check_activation("attend_latent", "q_pe", q_pe, 3);
  check_shape("attend_latent", "q_c", q_c, {batch.tokens(), q_pe.dim(1), cache.kv_lora_rank});
  check_shape("attend_latent", "q_pe", q_pe, {batch.tokens(), q_c.dim(1), cache.width() - cache.kv_lora_rank});
  Tensor o = ctx.arena.empty(q_c.shape(), ctx.options.compute);
  ctx.backend.attend_latent(o, q_c, q_pe, cache, batch, scale);
  return o;
}

Tensor gather_latent(Context& ctx, const CacheLayer& cache, const Batch& batch) {
  Tensor y = ctx.arena.empty({batch.total_context, cache.width()}, cache.latent.dtype());
  ctx.backend.gather_latent(y, cache, batch);
  return y;
}

Tensor attend_expanded(Context& ctx, const Tensor& q, const Tensor& kv, const Tensor& k_pe, const Batch& batch,
                       float scale) {
  check_activation("attend_expanded", "q", q, 3);
  check_activation("attend_expanded", "kv", kv, 3);
  check_activation("attend_expanded", "k_pe", k_pe, 2);
  const i64 nope = q.dim(2) - k_pe.dim(1), v = kv.dim(2) - nope;
  CHECK(nope > 0 && v > 0, "attend_expanded: q {}, kv {} and k_pe {} do not fit together", to_string(q.shape()),
        to_string(kv.shape()), to_string(k_pe.shape()));
  check_shape("attend_expanded", "kv", kv, {batch.total_context, q.dim(1), nope + v});
  check_shape("attend_expanded", "k_pe", k_pe, {batch.total_context, k_pe.dim(1)});
  Tensor o = ctx.arena.empty({q.dim(0), q.dim(1), v}, ctx.options.compute);
  ctx.backend.attend_expanded(o, q, kv, k_pe, batch, scale);
  return o;
}

Routing route(Context& ctx, const Tensor& logits, const Tensor& bias, const RouteArgs& args) {
  CHECK(logits.dtype() == DType::f32 && logits.rank() == 2, "route: logits are {} {}", name_of(logits.dtype()),
        to_string(logits.shape()));
  if (bias.defined()) check_shape("route", "bias", bias, {logits.dim(1)});
  const Shape shape{logits.dim(0), args.top_k};
  const Routing routing{ctx.arena.empty(shape, DType::f32), ctx.arena.empty(shape, DType::i32)};
  ctx.backend.route(routing.weights, routing.indices, logits, bias, args);
  return routing;
}

Routed group_by_expert(Context& ctx, const Tensor& x, const Tensor& indices, i64 first, i64 n_local) {
  check_activation("group_by_expert", "x", x, 2);
  check_integers("group_by_expert", "indices", indices, {x.dim(0), indices.dim(1)});
  const Routed routed{ctx.arena.empty({x.dim(0) * indices.dim(1), x.dim(1)}, x.dtype()),
                      ctx.arena.empty({n_local + 1}, DType::i32), ctx.arena.empty(indices.shape(), DType::i32)};
  ctx.backend.group_by_expert(routed, x, indices, first);
  return routed;
}

Tensor combine(Context& ctx, const Tensor& rows, const Routed& routed, const Tensor& weights) {
  check_activation("combine", "rows", rows, 2);
  check_shape("combine", "weights", weights, routed.places.shape());
  Tensor y = ctx.arena.empty({weights.dim(0), rows.dim(1)}, DType::f32);
  ctx.backend.combine(y, rows, routed, weights);
  return y;
}

Tensor sample(Context& ctx, const Tensor& logits, const SampleArgs& args) {
  CHECK(logits.dtype() == DType::f32 && logits.rank() == 2, "sample: logits are {} {}", name_of(logits.dtype()),
        to_string(logits.shape()));
  const Shape n{logits.dim(0)};
  for (const Tensor* parameter :
       {&args.temperature, &args.top_k, &args.top_p, &args.min_p, &args.repetition_penalty, &args.seed, &args.step})
    check_shape("sample", "a parameter", *parameter, n);
  Tensor ids = ctx.arena.empty(n, DType::i32);
  ctx.backend.sample(ids, logits, args);
  ctx.backend.mark_not_finite(ids, logits);
  return ids;
}

}  // namespace fathom::ops
