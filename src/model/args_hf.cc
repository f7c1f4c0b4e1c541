// Hugging Face config.json of DeepSeek-V2 and V3 models -> ModelArgs.
#include "model/args_fields.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "checkpoint/json_text.h"
#include "model/args_family.h"
#include "model/args_keys.h"

namespace fathom {
namespace {

using json = nlohmann::json;

double yarn_mscale(double factor, double mscale) { return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0; }

// One JSON object with typed look-ups; null counts as absent.
struct Section {
  const json& object;
  const std::string& source;

  const json* find(const char* key) const {
    const auto found = object.find(key);
    return found == object.end() || found->is_null() ? nullptr : &*found;
  }
  i64 integer(const char* key) const {
    const json* value = find(key);
    CHECK(value != nullptr, "{}: {} is missing", source, key);
    return json_integer(*value, key, source);
  }
  i64 integer(const char* key, i64 otherwise) const { return find(key) == nullptr ? otherwise : integer(key); }
  double real(const char* key, double otherwise) const {
    const json* value = find(key);
    return value == nullptr ? otherwise : json_real(*value, key, source);
  }
  // An integer that some files write as 32.0.
  i64 whole(const char* key, i64 otherwise) const {
    const double value = real(key, static_cast<double>(otherwise));
    CHECK(std::fabs(value) < 1e9 && value == std::floor(value), "{}: {} must be a whole number, not {}", source, key,
          value);
    return static_cast<i64>(value);
  }
  bool flag(const char* key, bool otherwise) const {
    const json* value = find(key);
    if (value == nullptr) return otherwise;
    CHECK(value->is_boolean(), "{}: {} must be true or false, not {}", source, key, shown_json(*value));
    return value->get<bool>();
  }
  std::string text(const char* key, const char* otherwise) const {
    const json* value = find(key);
    if (value == nullptr) return otherwise;
    CHECK(value->is_string(), "{}: {} must be a text, not {}", source, key, shown_json(*value));
    return value->get<std::string>();
  }
};

void check_dtype(const Section& config) {
  for (const char* key : {"torch_dtype", "dtype"}) {
    const std::string dtype = config.text(key, "bfloat16");
    CHECK(dtype == "bfloat16" || dtype == "float32" || dtype == "float8_e4m3fn",
          "{}: {} is \"{}\"; only bfloat16 (and FP8) weights are supported", config.source, key, shown(dtype));
  }
}

void read_sizes(ModelArgs& args, const Section& config) {
  args.vocab_size = config.integer("vocab_size");
  args.dim = config.integer("hidden_size");
  args.inter_dim = config.integer("intermediate_size");
  args.moe_inter_dim = config.integer("moe_intermediate_size");
  args.n_layers = config.integer("num_hidden_layers");
  args.n_dense_layers = config.integer("first_k_dense_replace");
  args.n_heads = config.integer("num_attention_heads");
  args.n_routed_experts = config.integer("n_routed_experts");
  args.n_shared_experts = config.integer("n_shared_experts");
  args.n_activated_experts = config.integer("num_experts_per_tok");
  args.q_lora_rank = config.integer("q_lora_rank", 0);
  args.kv_lora_rank = config.integer("kv_lora_rank");
  args.qk_nope_head_dim = config.integer("qk_nope_head_dim");
  args.qk_rope_head_dim = config.integer("qk_rope_head_dim");
  args.v_head_dim = config.integer("v_head_dim");
  args.max_seq_len = config.integer("max_position_embeddings", args.max_seq_len);
  args.n_mtp_layers = config.integer("num_nextn_predict_layers", 0);
  args.rms_norm_eps = config.real("rms_norm_eps", 1e-6);
  args.tie_word_embeddings = config.flag("tie_word_embeddings", false);
  args.bos_token_id = config.integer("bos_token_id", -1);
}

void read_routing(ModelArgs& args, const Section& config, Family family) {
  const bool v3 = family == Family::v3;
  args.score_func = config.text("scoring_func", v3 ? "sigmoid" : "softmax");
  args.route_scale = config.real("routed_scaling_factor", v3 ? 2.5 : 1.0);
  args.norm_topk_prob = config.flag("norm_topk_prob", v3);
  const std::string method = config.text("topk_method", v3 ? "noaux_tc" : "greedy");
  CHECK(method == "greedy" || method == "group_limited_greedy" || method == "noaux_tc",
        "{}: topk_method is \"{}\"; only greedy, group_limited_greedy and noaux_tc are supported", config.source,
        shown(method));
  args.gate_bias = method == "noaux_tc";
  if (method == "greedy") return;
  args.n_expert_groups = config.integer("n_group", v3 ? 8 : 1);
  args.n_limited_groups = config.integer("topk_group", v3 ? 4 : 1);
}

void read_yarn(ModelArgs& args, const Section& scaling) {
  args.yarn = true;
  args.no_yarn_reason.clear();
  args.rope_factor = scaling.real("factor", 1.0);
  args.original_seq_len = scaling.whole("original_max_position_embeddings", 4096);
  args.beta_fast = scaling.whole("beta_fast", 32);
  args.beta_slow = scaling.whole("beta_slow", 1);
  const double all_dim = scaling.real("mscale_all_dim", 0.0);
  args.mscale = all_dim;
  args.rope_mscale =
      yarn_mscale(args.rope_factor, scaling.real("mscale", 1.0)) / yarn_mscale(args.rope_factor, all_dim);
  args.rope_mscale = scaling.real("attention_factor", args.rope_mscale);
}

// "rope_scaling" or, in newer files, "rope_parameters" (which holds rope_theta as well).
void read_rope(ModelArgs& args, const Section& config) {
  args.rope_theta = config.real("rope_theta", 10000.0);
  args.rope_interleave = config.flag("rope_interleave", true);
  args.no_yarn_reason = "the configuration has no rope_scaling";
  const json* object = config.find("rope_scaling");
  if (object == nullptr) object = config.find("rope_parameters");
  if (object != nullptr) {
    CHECK(object->is_object(), "{}: rope_scaling must be an object, not {}", config.source, shown_json(*object));
    const Section scaling{*object, config.source};
    args.rope_theta = scaling.real("rope_theta", args.rope_theta);
    const std::string type = scaling.text("rope_type", scaling.text("type", "default").c_str());
    if (type == "yarn") return read_yarn(args, scaling);
    CHECK(type == "default", "{}: rope_scaling is of type \"{}\"; only \"yarn\" is supported", config.source,
          shown(type));
    args.no_yarn_reason = "its rope_type is \"default\"";
  }
  args.yarn = false;
  args.original_seq_len = args.max_seq_len;
}

void read_quantization(ModelArgs& args, const Section& config) {
  const json* object = config.find("quantization_config");
  if (object == nullptr) return;
  CHECK(object->is_object(), "{}: quantization_config must be an object, not {}", config.source, shown_json(*object));
  const Section quant{*object, config.source};
  const std::string method = quant.text("quant_method", "none");
  CHECK(method == "fp8",
        "{}: weights quantised as \"{}\" are not supported, only fp8 in blocks of 128 x 128; get the model's FP8 or "
        "bf16 checkpoint",
        config.source, shown(method));
  CHECK(quant.text("fmt", "e4m3") == "e4m3", "{}: quantization_config fmt is \"{}\"; only \"e4m3\" is supported",
        config.source, shown(quant.text("fmt", "")));
  CHECK(quant.text("activation_scheme", "dynamic") == "dynamic",
        "{}: quantization_config activation_scheme is \"{}\"; only \"dynamic\" is supported", config.source,
        shown(quant.text("activation_scheme", "")));
  const json* block = quant.find("weight_block_size");
  CHECK(block != nullptr && *block == json::array({128, 128}),
        "{}: quantization_config weight_block_size is {}; only [128, 128] is supported", config.source,
        block == nullptr ? "missing" : shown_json(*block));
  const std::string scale_fmt = quant.text("scale_fmt", "float");
  CHECK(scale_fmt == "float" || scale_fmt == "ue8m0",
        "{}: quantization_config scale_fmt is \"{}\"; only \"ue8m0\" or none is supported", config.source,
        shown(scale_fmt));
  args.dtype = "fp8";
  args.scale_fmt = scale_fmt == "ue8m0" ? "ue8m0" : "";
}

}  // namespace

std::vector<i64> parse_eos_ids(const json& config, const std::string& source_name) {
  std::vector<i64> ids;
  const auto found = config.find("eos_token_id");
  if (found == config.end() || found->is_null()) return ids;
  if (!found->is_array()) return {json_integer(*found, "eos_token_id", source_name)};
  for (const json& id : *found) ids.push_back(json_integer(id, "eos_token_id", source_name));
  return ids;
}

ModelArgs parse_hf_config(const json& object, const std::string& source_name) {
  const Section config{object, source_name};
  const Family family = family_of(object, source_name);
  const std::vector<std::string> unknown = judge_keys(object, source_name);
  check_dtype(config);
  ModelArgs args;
  if (!unknown.empty()) args.warnings.push_back(unknown_keys_text(unknown, source_name));
  read_sizes(args, config);
  read_routing(args, config, family);
  read_rope(args, config);
  read_quantization(args, config);
  args.eos_token_ids = parse_eos_ids(object, source_name);
  return args;
}

}  // namespace fathom
