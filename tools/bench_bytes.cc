#include "tools/bench_bytes.h"

#include <cmath>

namespace fathom {

double decode_bytes(const ModelArgs& args, i64 batch, i64 context) {
  const auto d = static_cast<double>(args.dim), heads = static_cast<double>(args.n_heads);
  const auto rank = static_cast<double>(args.kv_lora_rank), width = rank + static_cast<double>(args.qk_rope_head_dim);
  const auto q_out = heads * static_cast<double>(args.qk_head_dim());
  const auto q_rank = static_cast<double>(args.q_lora_rank);
  const Format& format = args.format();
  const double group = static_cast<double>(format.group_rows() * format.group_cols());
  const double scale = format.has_scale() ? static_cast<double>(size_of(format.scale_type())) / group : 0;
  const double weight = static_cast<double>(format.bits()) / 8 + scale;
  const double q = q_rank == 0 ? d * q_out : q_rank * (d + q_out);
  const double absorbed = rank * heads * static_cast<double>(args.qk_nope_head_dim + args.v_head_dim);
  const double attention = weight * (q + d * width + heads * static_cast<double>(args.v_head_dim) * d) + 2 * absorbed;
  const double expert = 3 * d * static_cast<double>(args.moe_inter_dim);
  const auto experts = static_cast<double>(args.n_routed_experts);
  const double chosen = experts * (1 - std::pow(1 - static_cast<double>(args.n_activated_experts) / experts, batch));
  const auto dense = static_cast<double>(args.n_dense_layers), layers = static_cast<double>(args.n_layers);
  const double moe = weight * expert * (chosen + static_cast<double>(args.n_shared_experts)) + 2 * d * experts;
  const double cache = 2 * width * static_cast<double>(context * batch);
  return layers * (attention + cache) + dense * weight * 3 * d * static_cast<double>(args.inter_dim) +
         (layers - dense) * moe + 2 * d * static_cast<double>(args.vocab_size);
}

}  // namespace fathom
