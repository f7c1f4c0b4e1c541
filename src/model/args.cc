#include "model/args.h"

#include <cmath>
#include <optional>

namespace fathom {
namespace {

struct Bound {
  const char* name;
  i64 ModelArgs::*field;
  i64 least, most;
};

// The upper bounds are far above any model of the family; together they keep every size product below 2^63.
constexpr Bound kBounds[] = {
    {"max_batch_size", &ModelArgs::max_batch_size, 1, 1 << 12},
    {"max_seq_len", &ModelArgs::max_seq_len, 1, 1 << 24},
    {"vocab_size", &ModelArgs::vocab_size, 1, 1 << 24},
    {"dim", &ModelArgs::dim, 1, 1 << 17},
    {"inter_dim", &ModelArgs::inter_dim, 1, 1 << 19},
    {"moe_inter_dim", &ModelArgs::moe_inter_dim, 1, 1 << 17},
    {"n_layers", &ModelArgs::n_layers, 1, 1 << 10},
    {"n_dense_layers", &ModelArgs::n_dense_layers, 0, 1 << 10},
    {"n_heads", &ModelArgs::n_heads, 1, 1 << 12},
    {"n_routed_experts", &ModelArgs::n_routed_experts, 1, 1 << 14},
    {"n_shared_experts", &ModelArgs::n_shared_experts, 1, 1 << 10},
    {"n_activated_experts", &ModelArgs::n_activated_experts, 1, 1 << 14},
    {"n_expert_groups", &ModelArgs::n_expert_groups, 1, 1 << 14},
    {"n_limited_groups", &ModelArgs::n_limited_groups, 1, 1 << 14},
    {"q_lora_rank", &ModelArgs::q_lora_rank, 0, 1 << 17},
    {"kv_lora_rank", &ModelArgs::kv_lora_rank, 1, 1 << 13},
    {"qk_nope_head_dim", &ModelArgs::qk_nope_head_dim, 1, 1 << 12},
    {"qk_rope_head_dim", &ModelArgs::qk_rope_head_dim, 2, 1 << 12},
    {"v_head_dim", &ModelArgs::v_head_dim, 1, 1 << 12},
    {"original_seq_len", &ModelArgs::original_seq_len, 1, 1 << 24},
    {"beta_fast", &ModelArgs::beta_fast, 1, 1 << 20},
    {"beta_slow", &ModelArgs::beta_slow, 1, 1 << 20},
    {"n_mtp_layers", &ModelArgs::n_mtp_layers, 0, 64},
    {"bos_token_id", &ModelArgs::bos_token_id, -1, 1 << 24},
};

void check_bounds(const ModelArgs& a) {
  for (const Bound& bound : kBounds) {
    const i64 value = a.*bound.field;
    CHECK(value >= bound.least, "{} is {}; it must be at least {}", bound.name, value, bound.least);
    CHECK(value <= bound.most, "{} is {}; at most {} is supported", bound.name, value, bound.most);
  }
}

void check_real(const char* name, double value, double least, double most) {
  CHECK(std::isfinite(value) && value >= least && value <= most, "{} is {}; it must be from {} to {}", name, value,
        least, most);
}

void check_routing(const ModelArgs& a) {
  CHECK(a.score_func == "softmax" || a.score_func == "sigmoid",
        "score_func is \"{}\"; only \"softmax\" and \"sigmoid\" are known", a.score_func);
  CHECK(a.n_activated_experts <= a.n_routed_experts,
        "n_activated_experts is {}, more than the {} routed experts (n_routed_experts)", a.n_activated_experts,
        a.n_routed_experts);
  CHECK(a.n_routed_experts % a.n_expert_groups == 0,
        "n_expert_groups is {}, which does not divide the {} routed experts (n_routed_experts)", a.n_expert_groups,
        a.n_routed_experts);
  CHECK(a.n_limited_groups <= a.n_expert_groups, "n_limited_groups is {}, more than the {} groups (n_expert_groups)",
        a.n_limited_groups, a.n_expert_groups);
  const i64 group = a.n_routed_experts / a.n_expert_groups;
  CHECK(a.n_activated_experts <= group * a.n_limited_groups,
        "n_activated_experts is {}, but the {} kept groups (n_limited_groups) hold only {} experts",
        a.n_activated_experts, a.n_limited_groups, group * a.n_limited_groups);
  CHECK(!a.gate_bias || a.n_expert_groups == 1 || group >= 2,
        "n_expert_groups is {}: with a gate bias a group is judged by its two best experts, but it would have only {}",
        a.n_expert_groups, group);
}

// One cut of a matrix among ranks.
struct Cut {
  const char* tensor;
  const char* side;  // the reference's word for the dimension that is cut
  const char* size_name;
  i64 size;
};

std::vector<Cut> matrix_cuts(const ModelArgs& a) {
  const i64 shared = a.n_shared_experts * a.moe_inter_dim;
  std::vector<Cut> cuts = {
      {a.q_lora_rank > 0 ? "layers.*.attn.wq_b.weight" : "layers.*.attn.wq.weight", "Output",
       "n_heads * (qk_nope_head_dim + qk_rope_head_dim)", a.n_heads * a.qk_head_dim()},
      {"layers.*.attn.wkv_b.weight", "Output", "n_heads * (qk_nope_head_dim + v_head_dim)",
       a.n_heads * (a.qk_nope_head_dim + a.v_head_dim)},
      {"layers.*.attn.wo.weight", "Input", "n_heads * v_head_dim", a.n_heads * a.v_head_dim},
  };
  if (a.n_dense_layers > 0) {
    cuts.push_back({"layers.*.ffn.w1.weight", "Output", "inter_dim", a.inter_dim});
    cuts.push_back({"layers.*.ffn.w2.weight", "Input", "inter_dim", a.inter_dim});
  }
  if (a.n_dense_layers < a.n_layers || a.n_mtp_layers > 0) {
    cuts.push_back({"layers.*.ffn.shared_experts.w1.weight", "Output", "n_shared_experts * moe_inter_dim", shared});
    cuts.push_back({"layers.*.ffn.shared_experts.w2.weight", "Input", "n_shared_experts * moe_inter_dim", shared});
  }
  return cuts;
}

// Why the model cannot be divided among n ranks; nothing when it can.
std::optional<std::string> obstacle(const ModelArgs& a, i64 n) {
  if (a.vocab_size % n != 0)
    return fmt::format("Vocabulary size must be divisible by world size (world_size={}); vocab_size is {}", n,
                       a.vocab_size);
  for (const Cut& cut : matrix_cuts(a))
    if (cut.size % n != 0)
      return fmt::format("{} features must be divisible by world size (world_size={}); {} has {} = {}", cut.side, n,
                         cut.tensor, cut.size_name, cut.size);
  if (a.n_heads % n != 0)
    return fmt::format("Number of attention heads must be divisible by world size (world_size={}); n_heads is {}", n,
                       a.n_heads);
  if (a.n_routed_experts % n != 0)
    return fmt::format("Number of experts must be divisible by world size (world_size={}); n_routed_experts is {}", n,
                       a.n_routed_experts);
  if (n == 1) return std::nullopt;
  for (const Cut& cut : matrix_cuts(a)) {
    const int dim = cut.side[0] == 'O' ? 0 : 1;
    if (const i64 unit = a.format().unit(dim); cut.size / n % unit != 0)
      return fmt::format(
          "{} cannot be cut into {} parts along dimension {}: its {} = {} would be cut inside a block of {} ({}; a "
          "part has {})",
          cut.tensor, n, dim, cut.size_name, cut.size, unit, a.format().name(), cut.size / n);
  }
  return std::nullopt;
}

}  // namespace

const Format& ModelArgs::format() const {
  if (dtype != "fp8") return kBf16;
  return scale_fmt == "ue8m0" ? kFp8Block128Ue8m0 : kFp8Block128;
}

std::string ModelArgs::yarn_text() const {
  if (!yarn) return fmt::format("YaRN is off: {}", no_yarn_reason.empty() ? "\"yarn\" is false" : no_yarn_reason);
  return fmt::format("YaRN is on: factor {}, from a context of {} tokens", rope_factor, original_seq_len);
}

double ModelArgs::softmax_scale() const {
  const double scale = 1.0 / std::sqrt(static_cast<double>(qk_head_dim()));
  if (!yarn || rope_factor <= 1) return scale;
  const double correction = 0.1 * mscale * std::log(rope_factor) + 1.0;
  return scale * correction * correction;
}

void ModelArgs::validate() const {
  check_bounds(*this);
  CHECK(dtype == "bf16" || dtype == "fp8", "dtype is \"{}\"; only \"bf16\" and \"fp8\" are known", dtype);
  CHECK(scale_fmt.empty() || scale_fmt == "ue8m0", "scale_fmt is \"{}\"; only \"ue8m0\" or null is known", scale_fmt);
  CHECK(n_dense_layers <= n_layers, "n_dense_layers is {}, more than the {} layers (n_layers)", n_dense_layers,
        n_layers);
  CHECK(qk_rope_head_dim % 2 == 0, "qk_rope_head_dim is {}; it must be even, rotation works on pairs",
        qk_rope_head_dim);
  check_routing(*this);
  check_real("route_scale", route_scale, 0, 1e6);
  check_real("rope_theta", rope_theta, 1, 1e15);
  check_real("rope_factor", rope_factor, yarn ? 1 : 0, 1e6);
  check_real("mscale", mscale, 0, 1e3);
  check_real("rope_mscale", rope_mscale, 1e-3, 1e3);
  check_real("rms_norm_eps", rms_norm_eps, 0, 1);
  CHECK(bos_token_id < vocab_size, "bos_token_id is {}, outside the vocabulary of {} (vocab_size)", bos_token_id,
        vocab_size);
  for (const i64 id : eos_token_ids)
    CHECK(id >= 0 && id < vocab_size, "eos_token_ids has {}, outside the vocabulary of {} (vocab_size)", id,
          vocab_size);
}

void ModelArgs::validate_world_size(int world_size) const {
  CHECK(world_size >= 1, "world size is {}; it must be at least 1", world_size);
  const std::optional<std::string> reason = obstacle(*this, world_size);
  if (!reason) return;
  std::string allowed = "1";
  for (i64 n = 2; n <= n_heads; ++n)
    if (!obstacle(*this, n)) allowed += fmt::format(", {}", n);
  fail("{}; world sizes that work: {}", *reason, allowed);
}

}  // namespace fathom
