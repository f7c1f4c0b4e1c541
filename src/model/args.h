// ModelArgs: what a model is. The reference's fields under its names, and the facts that its code derives or that a
// Hugging Face config.json states besides.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/check.h"
#include "quant/format.h"

namespace fathom {

struct ModelArgs {
  // The reference's fields and defaults (model.py, ModelArgs).
  i64 max_batch_size = 8;
  i64 max_seq_len = 4096 * 4;
  std::string dtype = "bf16";  // "bf16" or "fp8": how the matrices are stored
  std::string scale_fmt;       // "" or "ue8m0"
  i64 vocab_size = 102400;
  i64 dim = 2048;
  i64 inter_dim = 10944;
  i64 moe_inter_dim = 1408;
  i64 n_layers = 27;
  i64 n_dense_layers = 1;
  i64 n_heads = 16;
  i64 n_routed_experts = 64;
  i64 n_shared_experts = 2;
  i64 n_activated_experts = 6;
  i64 n_expert_groups = 1;
  i64 n_limited_groups = 1;
  std::string score_func = "softmax";  // "softmax" or "sigmoid"
  double route_scale = 1.0;
  i64 q_lora_rank = 0;
  i64 kv_lora_rank = 512;
  i64 qk_nope_head_dim = 128;
  i64 qk_rope_head_dim = 64;
  i64 v_head_dim = 128;
  i64 original_seq_len = 4096;
  double rope_theta = 10000.0;
  double rope_factor = 40;
  i64 beta_fast = 32;
  i64 beta_slow = 1;
  double mscale = 1.0;  // of the softmax scale: Hugging Face's mscale_all_dim

  // Facts that the reference derives. From a reference config: its rule; from config.json: what it says.
  bool yarn = true;             // YaRN frequencies and softmax correction (reference: max_seq_len > original_seq_len)
  double rope_mscale = 1.0;     // multiplies cos and sin (Hugging Face: mscale / mscale_all_dim terms; reference: 1)
  bool gate_bias = false;       // e_score_correction_bias (reference: dim == 7168)
  bool norm_topk_prob = false;  // divide chosen weights by their sum (reference: sigmoid)
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;
  i64 n_mtp_layers = 0;            // num_nextn_predict_layers
  i64 bos_token_id = -1;           // -1: not stated
  std::vector<i64> eos_token_ids;  // may be empty
  bool rope_interleave = true;     // neighbours are rotated together; else (i, i + d/2), as the files' rows lie

  // What the files say besides, for a person.
  std::vector<std::string> warnings;  // whole sentences
  std::string no_yarn_reason;         // why yarn is false

  i64 qk_head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
  const Format& format() const;   // of the matrices: kBf16, kFp8Block128 or kFp8Block128Ue8m0
  std::string yarn_text() const;  // one line: whether YaRN is on, with its factor, or why it is off
  double softmax_scale() const;   // qk_head_dim^-0.5, times (0.1 * mscale * ln(rope_factor) + 1)^2 with YaRN

  // Throws Error naming the field, its value and the reason when the values cannot describe a model.
  void validate() const;
  // Throws Error when the model cannot be divided among `world_size` ranks, with the reference's wording.
  void validate_world_size(int world_size) const;
};

// From the reference's JSON (an unknown key is an error naming the nearest known one; the derived facts may be stated
// under their own names) or from a Hugging Face config.json (recognised by "model_type" or "architectures"; others than
// deepseek_v2, deepseek_v3 and kimi_k2 are refused by name, as are keys that ask for other arithmetic: args_keys.h).
ModelArgs parse_model_args(std::string_view json_text, const std::string& source_name);
ModelArgs load_model_args(const std::filesystem::path& config_file);

// The configuration of a model directory: config.json, else args.json. Adds eos ids of generation_config.json.
ModelArgs load_model_args_of(const std::filesystem::path& model_dir);

// The fields as JSON, the reference's in its order; of the derived ones only those that differ from its rule.
nlohmann::ordered_json to_json(const ModelArgs& args);

// The same as a Hugging Face config.json (deepseek_v2 or deepseek_v3); reading it gives the same arguments, but for
// max_batch_size, which such a file does not have.
nlohmann::ordered_json to_hf_config(const ModelArgs& args);

}  // namespace fathom
