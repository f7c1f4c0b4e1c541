#include "model/mla.h"

namespace fathom {
namespace {

i64 local_heads(const Params& p) {
  CHECK(p.args().n_heads % p.world_size() == 0,
        "Number of heads must be divisible by world size (world_size={}); it is {}", p.world_size(), p.args().n_heads);
  return p.args().n_heads / p.world_size();
}

}  // namespace

// Members are built in the order of their declaration, which is the reference's order of parameters.
MLA::MLA(const Params& p)
    : n_local_heads_(local_heads(p)),
      q_lora_rank_(p.args().q_lora_rank),
      kv_lora_rank_(p.args().kv_lora_rank),
      qk_nope_head_dim_(p.args().qk_nope_head_dim),
      qk_rope_head_dim_(p.args().qk_rope_head_dim),
      v_head_dim_(p.args().v_head_dim),
      softmax_scale_(static_cast<float>(p.args().softmax_scale())),
      wkv_a_(p.sub("wkv_a"), p.args().dim, kv_lora_rank_ + qk_rope_head_dim_),
      kv_norm_(p.sub("kv_norm"), kv_lora_rank_),
      wo_(p.sub("wo"), p.args().n_heads * v_head_dim_, p.args().dim) {
  const i64 dim = p.args().dim, q_out = p.args().n_heads * p.args().qk_head_dim();
  if (q_lora_rank_ == 0) {
    wq_.emplace(p.sub("wq"), dim, q_out);
  } else {
    wq_a_.emplace(p.sub("wq_a"), dim, q_lora_rank_);
    q_norm_.emplace(p.sub("q_norm"), q_lora_rank_);
    wq_b_.emplace(p.sub("wq_b"), q_lora_rank_, q_out);
  }
  const i64 per_head = qk_nope_head_dim_ + v_head_dim_;
  if (p.options().attn == AttnImpl::naive) {
    wkv_b_.emplace(p.sub("wkv_b"), kv_lora_rank_, p.args().n_heads * per_head);
    return;
  }
  const std::vector<float> wkv_b = p.sub("wkv_b").host_matrix(p.args().n_heads * per_head, kv_lora_rank_, Split::out);
  std::vector<float> wk_b, wv_b;
  if (!p.dry()) {
    for (i64 h = 0; h < n_local_heads_; ++h) {
      const float* head = wkv_b.data() + h * per_head * kv_lora_rank_;  // [nope + v, kv_lora_rank]
      for (i64 c = 0; c < kv_lora_rank_; ++c)
        for (i64 d = 0; d < qk_nope_head_dim_; ++d) wk_b.push_back(head[d * kv_lora_rank_ + c]);
      wv_b.insert(wv_b.end(), head + qk_nope_head_dim_ * kv_lora_rank_, head + per_head * kv_lora_rank_);
    }
  }
  wk_b_ = p.derived(wk_b, {n_local_heads_, kv_lora_rank_, qk_nope_head_dim_}, p.options().compute);
  wv_b_ = p.derived(wv_b, {n_local_heads_, v_head_dim_, kv_lora_rank_}, p.options().compute);
}

Tensor MLA::operator()(Context& ctx, const Tensor& x, const Tensor& freqs, const Batch& batch,
                       const CacheLayer& cache) const {
  const i64 tokens = x.dim(0);
  Tensor q = q_lora_rank_ == 0 ? (*wq_)(ctx, x) : (*wq_b_)(ctx, (*q_norm_)(ctx, (*wq_a_)(ctx, x)));
  q = q.view({tokens, n_local_heads_, qk_nope_head_dim_ + qk_rope_head_dim_});
  ops::rope_(ctx, split(q, qk_nope_head_dim_, qk_rope_head_dim_)[1], freqs, batch.positions);
  const Tensor kv_pe = wkv_a_(ctx, x);
  ops::rope_(ctx, split(kv_pe.view({tokens, 1, kv_pe.dim(1)}), kv_lora_rank_, qk_rope_head_dim_)[1], freqs,
             batch.positions);
  const auto [kv, k_pe] = split(kv_pe, kv_lora_rank_, qk_rope_head_dim_);
  ops::store_latent(ctx, cache, kv_norm_(ctx, kv), k_pe, batch.slots);
  const Tensor o = wkv_b_ ? naive(ctx, q, batch, cache) : absorb(ctx, q, batch, cache);
  return wo_(ctx, o.view({tokens, n_local_heads_ * v_head_dim_}));
}

Tensor MLA::absorb(Context& ctx, const Tensor& q, const Batch& batch, const CacheLayer& cache) const {
  const auto [q_nope, q_pe] = split(q, qk_nope_head_dim_, qk_rope_head_dim_);
  const Tensor q_c = ops::head_matmul(ctx, q_nope, wk_b_);  // queries into the latent space
  const Tensor o_c = ops::attend_latent(ctx, q_c, q_pe, cache, batch, softmax_scale_);
  return ops::head_matmul(ctx, o_c, wv_b_);  // back to v_head_dim
}

Tensor MLA::naive(Context& ctx, const Tensor& q, const Batch& batch, const CacheLayer& cache) const {
  const Tensor cached = ops::gather_latent(ctx, cache, batch);  // [total_context, kv_lora_rank + rope]
  const auto [kv, k_pe] = split(cached, kv_lora_rank_, qk_rope_head_dim_);
  const Tensor expanded = (*wkv_b_)(ctx, kv);
  return ops::attend_expanded(ctx, q, expanded.view({kv.dim(0), n_local_heads_, qk_nope_head_dim_ + v_head_dim_}), k_pe,
                              batch, softmax_scale_);
}

}  // namespace fathom
