#include "model/transformer.h"

#include <algorithm>

#include "model/rope.h"

namespace fathom {
namespace {

std::variant<MLP, MoE> make_ffn(const Params& p, i64 layer_id) {
  if (layer_id < p.args().n_dense_layers) return MLP(p, p.args().dim, p.args().inter_dim);
  return MoE(p);
}

std::vector<Block> make_layers(const Params& p) {
  std::vector<Block> layers;
  for (i64 i = 0; i < p.args().n_layers; ++i) layers.emplace_back(p.sub(i), i);
  return layers;
}

// float32 [max_seq_len, qk_rope_head_dim / 2, 2]
Tensor make_freqs(const Params& p) {
  const auto fill = [&](i64, std::span<float> values) {
    std::ranges::copy(precompute_freqs_cis(p.args()), values.begin());
  };
  return p.derived({1, p.args().max_seq_len, p.args().qk_rope_head_dim / 2, 2}, DType::f32, fill)[0];
}

}  // namespace

Block::Block(const Params& p, i64 layer_id)
    : attn_(p.sub("attn")),
      ffn_(make_ffn(p.sub("ffn"), layer_id)),
      attn_norm_(p.sub("attn_norm"), p.args().dim),
      ffn_norm_(p.sub("ffn_norm"), p.args().dim) {}

Normed Block::operator()(Context& ctx, const Tensor& h, const Normed& x, const Tensor& freqs,
                         std::span<const Sequences> runs, const CacheLayer& cache, const Norm& next) const {
  Normed y;
  {
    const ArenaScope scope(ctx.arena);
    y = attn_(ctx, h, x, freqs, runs, cache, ffn_norm_);
  }
  const ArenaScope scope(ctx.arena);
  return std::visit([&](const auto& ffn) { return ffn(ctx, h, y, next); }, ffn_);
}

Transformer::Transformer(const Params& p)
    : embed_(p.sub("embed"), p.args().vocab_size, p.args().dim),
      layers_(make_layers(p.sub("layers"))),
      norm_(p.sub("norm"), p.args().dim),
      head_(p.sub("head"), p.args().dim, p.args().vocab_size),
      freqs_(make_freqs(p)) {
  p.load();
}

Normed Transformer::forward(Context& ctx, const Batch& batch, const LatentCache& cache,
                            const HiddenHook& hidden) const {
  for (const Sequences& run : batch.runs)
    CHECK(run.max_context <= freqs_.dim(0),
          "a context of {} tokens, but the model was built with positions for {} (max_seq_len)", run.max_context,
          freqs_.dim(0));
  const Tensor h = embed_(ctx, batch.ids);
  Normed x = layers_.front().attn_norm()(h);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Norm& next = i + 1 < layers_.size() ? layers_[i + 1].attn_norm() : norm_;
    x = layers_[i](ctx, h, x, freqs_, batch.runs, cache.layer(static_cast<i64>(i)), next);
    if (hidden) hidden(static_cast<i64>(i), h);
  }
  return x;
}

Tensor Transformer::operator()(Context& ctx, const Batch& batch, const LatentCache& cache,
                               const HiddenHook& hidden) const {
  const Normed x = forward(ctx, batch, cache, hidden);
  return head_(ctx, {ops::gather_rows(ctx, x.x, batch.logit_rows), x.norm});
}

}  // namespace fathom
