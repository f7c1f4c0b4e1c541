// ModelArgs -> Hugging Face config.json.
#include "model/args.h"

#include <nlohmann/json.hpp>

namespace fathom {
namespace {

using Json = nlohmann::ordered_json;

void write_sizes(Json& out, const ModelArgs& args) {
  out["vocab_size"] = args.vocab_size;
  out["hidden_size"] = args.dim;
  out["intermediate_size"] = args.inter_dim;
  out["moe_intermediate_size"] = args.moe_inter_dim;
  out["num_hidden_layers"] = args.n_layers;
  out["num_nextn_predict_layers"] = args.n_mtp_layers;
  out["num_attention_heads"] = args.n_heads;
  out["num_key_value_heads"] = args.n_heads;
  out["first_k_dense_replace"] = args.n_dense_layers;
  out["moe_layer_freq"] = 1;
  out["n_routed_experts"] = args.n_routed_experts;
  out["n_shared_experts"] = args.n_shared_experts;
  out["num_experts_per_tok"] = args.n_activated_experts;
  out["q_lora_rank"] = args.q_lora_rank > 0 ? Json(args.q_lora_rank) : Json(nullptr);
  out["kv_lora_rank"] = args.kv_lora_rank;
  out["qk_nope_head_dim"] = args.qk_nope_head_dim;
  out["qk_rope_head_dim"] = args.qk_rope_head_dim;
  out["v_head_dim"] = args.v_head_dim;
}

void write_routing(Json& out, const ModelArgs& args) {
  out["n_group"] = args.n_expert_groups;
  out["topk_group"] = args.n_limited_groups;
  out["topk_method"] = args.gate_bias ? "noaux_tc" : args.n_expert_groups > 1 ? "group_limited_greedy" : "greedy";
  out["scoring_func"] = args.score_func;
  out["norm_topk_prob"] = args.norm_topk_prob;
  out["routed_scaling_factor"] = args.route_scale;
}

void write_rope(Json& out, const ModelArgs& args) {
  out["max_position_embeddings"] = args.max_seq_len;
  out["rope_theta"] = args.rope_theta;
  if (!args.rope_interleave) out["rope_interleave"] = false;
  out["rope_scaling"] = nullptr;
  if (!args.yarn) return;
  Json scaling = {{"type", "yarn"},
                  {"factor", args.rope_factor},
                  {"original_max_position_embeddings", args.original_seq_len},
                  {"beta_fast", args.beta_fast},
                  {"beta_slow", args.beta_slow},
                  {"mscale", args.mscale},
                  {"mscale_all_dim", args.mscale}};
  if (args.rope_mscale != 1.0) scaling["attention_factor"] = args.rope_mscale;
  out["rope_scaling"] = scaling;
}

}  // namespace

nlohmann::ordered_json to_hf_config(const ModelArgs& args) {
  const bool v3 = args.score_func == "sigmoid" || args.gate_bias;
  Json out;
  out["architectures"] = {v3 ? "DeepseekV3ForCausalLM" : "DeepseekV2ForCausalLM"};
  out["model_type"] = v3 ? "deepseek_v3" : "deepseek_v2";
  write_sizes(out, args);
  write_routing(out, args);
  write_rope(out, args);
  out["rms_norm_eps"] = args.rms_norm_eps;
  out["hidden_act"] = "silu";
  out["attention_bias"] = false;
  out["tie_word_embeddings"] = args.tie_word_embeddings;
  out["torch_dtype"] = "bfloat16";
  out["bos_token_id"] = args.bos_token_id >= 0 ? Json(args.bos_token_id) : Json(nullptr);
  const auto& eos = args.eos_token_ids;
  out["eos_token_id"] = eos.empty() ? Json(nullptr) : eos.size() == 1 ? Json(eos.front()) : Json(eos);
  if (args.dtype != "fp8") return out;
  Json quantization = {{"quant_method", "fp8"}, {"fmt", "e4m3"}, {"activation_scheme", "dynamic"}};
  quantization["weight_block_size"] = {128, 128};
  if (!args.scale_fmt.empty()) quantization["scale_fmt"] = args.scale_fmt;
  out["quantization_config"] = quantization;
  return out;
}

}  // namespace fathom
