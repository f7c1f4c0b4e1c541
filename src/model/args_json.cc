#include "model/args_fields.h"

#include <algorithm>
#include <array>
#include <limits>

#include <nlohmann/json.hpp>

#include "base/model_folder.h"
#include "base/names.h"
#include "checkpoint/file_checkpoint.h"
#include "checkpoint/json_text.h"

namespace fathom {
namespace {

constexpr i64 kMaxConfigBytes = 16 << 20;

using json = nlohmann::json;

constexpr std::array<ArgsField, 38> kFields = {{
    {"max_batch_size", &ModelArgs::max_batch_size},
    {"max_seq_len", &ModelArgs::max_seq_len},
    {"dtype", &ModelArgs::dtype},
    {"scale_fmt", &ModelArgs::scale_fmt},
    {"vocab_size", &ModelArgs::vocab_size},
    {"dim", &ModelArgs::dim},
    {"inter_dim", &ModelArgs::inter_dim},
    {"moe_inter_dim", &ModelArgs::moe_inter_dim},
    {"n_layers", &ModelArgs::n_layers},
    {"n_dense_layers", &ModelArgs::n_dense_layers},
    {"n_heads", &ModelArgs::n_heads},
    {"n_routed_experts", &ModelArgs::n_routed_experts},
    {"n_shared_experts", &ModelArgs::n_shared_experts},
    {"n_activated_experts", &ModelArgs::n_activated_experts},
    {"n_expert_groups", &ModelArgs::n_expert_groups},
    {"n_limited_groups", &ModelArgs::n_limited_groups},
    {"score_func", &ModelArgs::score_func},
    {"route_scale", &ModelArgs::route_scale},
    {"q_lora_rank", &ModelArgs::q_lora_rank},
    {"kv_lora_rank", &ModelArgs::kv_lora_rank},
    {"qk_nope_head_dim", &ModelArgs::qk_nope_head_dim},
    {"qk_rope_head_dim", &ModelArgs::qk_rope_head_dim},
    {"v_head_dim", &ModelArgs::v_head_dim},
    {"original_seq_len", &ModelArgs::original_seq_len},
    {"rope_theta", &ModelArgs::rope_theta},
    {"rope_factor", &ModelArgs::rope_factor},
    {"beta_fast", &ModelArgs::beta_fast},
    {"beta_slow", &ModelArgs::beta_slow},
    {"mscale", &ModelArgs::mscale},
    {"yarn", &ModelArgs::yarn, true},
    {"rope_interleave", &ModelArgs::rope_interleave, true},
    {"rope_mscale", &ModelArgs::rope_mscale, true},
    {"gate_bias", &ModelArgs::gate_bias, true},
    {"norm_topk_prob", &ModelArgs::norm_topk_prob, true},
    {"rms_norm_eps", &ModelArgs::rms_norm_eps, true},
    {"tie_word_embeddings", &ModelArgs::tie_word_embeddings, true},
    {"n_mtp_layers", &ModelArgs::n_mtp_layers, true},
    {"bos_token_id", &ModelArgs::bos_token_id, true},
}};

constexpr ArgsField kEosField = {"eos_token_ids", &ModelArgs::eos_token_ids, true};

[[noreturn]] void wrong_type(std::string_view field, std::string_view wanted, const json& value,
                             const std::string& source_name) {
  fail("{}: {} must be {}, not {}", source_name, field, wanted, shown_json(value));
}

// Sets one field from its JSON value.
struct Reader {
  ModelArgs& args;
  std::string_view field;
  const json& value;
  const std::string& source;

  void operator()(i64 ModelArgs::*member) const { args.*member = json_integer(value, field, source); }
  void operator()(double ModelArgs::*member) const { args.*member = json_real(value, field, source); }
  void operator()(bool ModelArgs::*member) const {
    if (!value.is_boolean()) wrong_type(field, "true or false", value, source);
    args.*member = value.get<bool>();
  }
  void operator()(std::string ModelArgs::*member) const {
    const bool null_scale = value.is_null() && field == "scale_fmt";
    if (!value.is_string() && !null_scale) wrong_type(field, "a text", value, source);
    args.*member = null_scale ? "" : value.get<std::string>();
  }
  void operator()(std::vector<i64> ModelArgs::*member) const {
    if (!value.is_array()) wrong_type(field, "a list of integers", value, source);
    (args.*member).clear();
    for (const json& item : value) (args.*member).push_back(json_integer(item, field, source));
  }
};

void read_fields(ModelArgs& args, const json& config, const std::string& source_name, bool derived) {
  for (const ArgsField& field : args_fields()) {
    const auto found = config.find(field.name);
    if (field.derived == derived && found != config.end())
      std::visit(Reader{args, field.name, *found, source_name}, field.member);
  }
}

void refuse_unknown_keys(const json& config, const std::string& source_name) {
  std::vector<std::string_view> names;
  for (const ArgsField& field : args_fields()) names.push_back(field.name);
  for (const auto& [key, value] : config.items())
    CHECK(std::find(names.begin(), names.end(), key) != names.end(),
          "{}: unknown field \"{}\"; the nearest known one is \"{}\"", source_name, shown(key),
          nearest_name(key.substr(0, 64), names));
}

ModelArgs parse_reference(const json& config, const std::string& source_name) {
  refuse_unknown_keys(config, source_name);
  ModelArgs args;
  read_fields(args, config, source_name, false);
  apply_reference_rules(args);
  if (!args.yarn)
    args.no_yarn_reason =
        fmt::format("max_seq_len ({}) is not above original_seq_len ({})", args.max_seq_len, args.original_seq_len);
  read_fields(args, config, source_name, true);
  if (config.contains("yarn")) args.no_yarn_reason.clear();
  return args;
}

// A message of validate() with the name of the file in front.
void validate_named(const ModelArgs& args, const std::string& source_name) {
  try {
    args.validate();
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", source_name, error.what()), error.where());
  }
}

void add_generation_config(ModelArgs& args, const std::filesystem::path& file) {
  const std::string name = file.string();
  const json config = parse_json(read_model_file(file, kMaxConfigBytes), name);
  CHECK(config.is_object(), "{}: a JSON object is expected", name);
  for (const i64 id : parse_eos_ids(config, name))
    if (std::find(args.eos_token_ids.begin(), args.eos_token_ids.end(), id) == args.eos_token_ids.end())
      args.eos_token_ids.push_back(id);
  const auto bos = config.find("bos_token_id");
  if (args.bos_token_id < 0 && bos != config.end() && !bos->is_null())
    args.bos_token_id = json_integer(*bos, "bos_token_id", name);
  validate_named(args, name);
}

}  // namespace

std::span<const ArgsField> args_fields() {
  static const std::array<ArgsField, kFields.size() + 1> kAll = [] {
    std::array<ArgsField, kFields.size() + 1> all;
    std::copy(kFields.begin(), kFields.end(), all.begin());
    all.back() = kEosField;
    return all;
  }();
  return kAll;
}

void apply_reference_rules(ModelArgs& args) {
  args.yarn = args.max_seq_len > args.original_seq_len;
  args.gate_bias = args.score_func == "sigmoid" && args.dim == 7168;
  args.norm_topk_prob = args.score_func == "sigmoid";
}

i64 json_integer(const json& value, std::string_view field, const std::string& source_name) {
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || value.get<std::uint64_t>() <= std::numeric_limits<i64>::max());
  if (!fits) wrong_type(field, "an integer", value, source_name);
  return value.get<i64>();
}

double json_real(const json& value, std::string_view field, const std::string& source_name) {
  if (!value.is_number()) wrong_type(field, "a number", value, source_name);
  return value.get<double>();
}

ModelArgs parse_model_args(std::string_view json_text, const std::string& source_name) {
  const json config = parse_json(json_text, source_name);
  CHECK(config.is_object(), "{}: a JSON object is expected, this is {}", source_name, config.type_name());
  const bool hugging_face = config.contains("model_type") || config.contains("architectures");
  ModelArgs args = hugging_face ? parse_hf_config(config, source_name) : parse_reference(config, source_name);
  validate_named(args, source_name);
  return args;
}

ModelArgs load_model_args(const std::filesystem::path& config_file) {
  return parse_model_args(read_model_file(config_file, kMaxConfigBytes), config_file.string());
}

ModelArgs load_model_args_of(const std::filesystem::path& model_dir) {
  std::filesystem::path file = model_dir / "config.json";
  if (!std::filesystem::exists(file)) file = model_dir / "args.json";
  if (!std::filesystem::exists(file)) {
    check_model_files(model_dir);  // a link to nothing, for one
    const bool weights = std::filesystem::exists(model_dir / kIndexFile) || !safetensors_files(model_dir).empty();
    if (!weights) open_checkpoint(model_dir);  // says what is there instead
    fail("{} has neither config.json nor args.json; name a configuration with --config", model_dir.string());
  }
  ModelArgs args = load_model_args(file);
  const std::filesystem::path generation = model_dir / "generation_config.json";
  if (std::filesystem::exists(generation)) add_generation_config(args, generation);
  return args;
}

nlohmann::ordered_json to_json(const ModelArgs& args) {
  ModelArgs usual;
  usual.score_func = args.score_func;
  usual.dim = args.dim;
  usual.max_seq_len = args.max_seq_len;
  usual.original_seq_len = args.original_seq_len;
  apply_reference_rules(usual);
  nlohmann::ordered_json out;
  for (const ArgsField& field : args_fields())
    std::visit(
        [&](auto member) {
          const bool absent = field.name == "scale_fmt" && args.scale_fmt.empty();
          if (!absent && (!field.derived || args.*member != usual.*member)) out[std::string(field.name)] = args.*member;
        },
        field.member);
  return out;
}

}  // namespace fathom
