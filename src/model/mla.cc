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
      kv_norm_(p.sub("kv_norm"), kv_lora_rank_, kLatentNormEps),
      wo_(p.sub("wo"), p.args().n_heads * v_head_dim_, p.args().dim) {
  const i64 dim = p.args().dim, q_out = p.args().n_heads * p.args().qk_head_dim();
  if (q_lora_rank_ == 0) {
    wq_.emplace(p.sub("wq"), dim, q_out);
  } else {
    wq_a_.emplace(p.sub("wq_a"), dim, q_lora_rank_);
    q_norm_.emplace(p.sub("q_norm"), q_lora_rank_, kLatentNormEps);
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

Normed MLA::operator()(Context& ctx, const Tensor& h, const Normed& x, const Tensor& freqs,
                       std::span<const Sequences> runs, const CacheLayer& cache, const Norm& next) const {
  const i64 tokens = h.dim(0);
  Tensor q, kv_pe;
  if (q_lora_rank_ == 0) {
    const auto both = ops::linear(ctx, x, {{wq_->weight}, {wkv_a_.weight}});
    q = both[0], kv_pe = both[1];
  } else {
    const auto both = ops::linear(ctx, x, {{wq_a_->weight, DType::f32}, {wkv_a_.weight}});
    q = (*wq_b_)(ctx, (*q_norm_)(both[0])), kv_pe = both[1];
  }
  q = q.view({tokens, n_local_heads_, qk_nope_head_dim_ + qk_rope_head_dim_});
  const LatentAttention args{.kv_norm = kv_norm_,
                             .freqs = freqs,
                             .scale = softmax_scale_,
                             .wkv_b = wkv_b_ ? wkv_b_->weight : Weight{},
                             .wk_b = wk_b_,
                             .wv_b = wv_b_};
  const Tensor o = ops::attention(ctx, q, kv_pe, args, cache, runs);
  return wo_(ctx, h, o.view({tokens, n_local_heads_ * v_head_dim_}), next);
}

}  // namespace fathom
