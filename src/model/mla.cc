#include "model/mla.h"

#include <algorithm>

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
  const auto head = [&](i64 h) { return wkv_b.data() + h * per_head * kv_lora_rank_; };  // [nope + v, kv_lora_rank]
  wk_b_ = p.derived({n_local_heads_, kv_lora_rank_, qk_nope_head_dim_}, p.options().compute,
                    [&](i64 h, std::span<float> transposed) {
                      float* to = transposed.data();
                      for (i64 c = 0; c < kv_lora_rank_; ++c)
                        for (i64 d = 0; d < qk_nope_head_dim_; ++d) *to++ = head(h)[d * kv_lora_rank_ + c];
                    });
  wv_b_ =
      p.derived({n_local_heads_, v_head_dim_, kv_lora_rank_}, p.options().compute, [&](i64 h, std::span<float> values) {
        std::copy_n(head(h) + qk_nope_head_dim_ * kv_lora_rank_, values.size(), values.begin());
      });
}

void MLA::add_(Context& ctx, const Tensor& h, const RMSNorm& norm, const Tensor& freqs, const Batch& batch,
               const CacheLayer& cache) const {
  const i64 tokens = h.dim(0);
  const auto first = q_lora_rank_ == 0 ? norm.linear(ctx, h, {{wq_->weight()}, {wkv_a_.weight()}})
                                       : norm.linear(ctx, h, {{wq_a_->weight(), DType::f32}, {wkv_a_.weight()}});
  Tensor q = q_lora_rank_ == 0 ? first[0] : q_norm_->linear(ctx, first[0], {{wq_b_->weight()}})[0];
  q = q.view({tokens, n_local_heads_, qk_nope_head_dim_ + qk_rope_head_dim_});
  Tensor o;
  if (wkv_b_) {
    rotate_and_store(ctx, q, first[1], freqs, batch, cache);
    o = naive(ctx, q, batch, cache);
  } else {
    const LatentAttention args{kv_norm_.weight(), kv_norm_.eps(), freqs, wk_b_, wv_b_, softmax_scale_};
    o = ops::latent_attention(ctx, q, first[1], args, cache, batch);
  }
  wo_.add_(ctx, h, o.view({tokens, n_local_heads_ * v_head_dim_}));
}

void MLA::rotate_and_store(Context& ctx, const Tensor& q, const Tensor& kv_pe, const Tensor& freqs, const Batch& batch,
                           const CacheLayer& cache) const {
  ops::rope_(ctx, split(q, qk_nope_head_dim_, qk_rope_head_dim_)[1], freqs, batch.positions);
  ops::rope_(ctx, split(kv_pe.view({kv_pe.dim(0), 1, kv_pe.dim(1)}), kv_lora_rank_, qk_rope_head_dim_)[1], freqs,
             batch.positions);
  const auto [kv, k_pe] = split(kv_pe, kv_lora_rank_, qk_rope_head_dim_);
  ops::store_latent(ctx, cache, kv_norm_(ctx, kv), k_pe, batch.slots);
}

Tensor MLA::naive(Context& ctx, const Tensor& q, const Batch& batch, const CacheLayer& cache) const {
  const Tensor cached = ops::gather_latent(ctx, cache, batch);  // [total_context, kv_lora_rank + rope]
  const auto [kv, k_pe] = split(cached, kv_lora_rank_, qk_rope_head_dim_);
  const Tensor expanded = (*wkv_b_)(ctx, kv);
  return ops::attend_expanded(ctx, q, expanded.view({kv.dim(0), n_local_heads_, qk_nope_head_dim_ + v_head_dim_}), k_pe,
                              batch, softmax_scale_);
}

}  // namespace fathom
