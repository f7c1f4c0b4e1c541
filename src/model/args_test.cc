#include "model/args.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "base/file.h"

namespace fathom {
namespace {

using json = nlohmann::json;
namespace fs = std::filesystem;

fs::path source_dir() { return std::getenv("FATHOM_SOURCE_DIR"); }
fs::path golden_dir() { return fs::path(std::getenv("FATHOM_TEST_DATA")) / "golden" / "golden"; }

// The message of the Error that parsing `text` throws; empty when it does not.
std::string refusal(const std::string& text) {
  try {
    parse_model_args(text, "c.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string refusal(const json& config) { return refusal(config.dump()); }

json v3_config() { return json::parse(read_file(source_dir() / "models/tiny/config.json")); }

TEST(Args, ReferenceConfigs) {
  const ModelArgs small = load_model_args(source_dir() / "configs/config_16B.json");
  EXPECT_EQ(small.n_layers, 27);
  EXPECT_EQ(small.score_func, "softmax");
  EXPECT_EQ(small.max_seq_len, 16384);
  EXPECT_TRUE(small.yarn);  // 16384 > 4096
  EXPECT_FALSE(small.norm_topk_prob);
  EXPECT_DOUBLE_EQ(small.softmax_scale(), std::pow(192.0, -0.5) * std::pow(0.1 * 0.707 * std::log(40.0) + 1, 2));
  const ModelArgs v3 = load_model_args(source_dir() / "configs/config_671B.json");
  EXPECT_TRUE(v3.gate_bias);
  EXPECT_TRUE(v3.norm_topk_prob);
  EXPECT_EQ(&v3.format(), &kFp8Block128);
  EXPECT_EQ(&load_model_args(source_dir() / "configs/config_v3.1.json").format(), &kFp8Block128Ue8m0);
  EXPECT_EQ(&load_model_args(source_dir() / "configs/config_236B.json").format(), &kBf16);
}

TEST(Args, ReferenceRulesAndExplicitFacts) {
  EXPECT_FALSE(parse_model_args(R"({"max_seq_len": 4096})", "c").yarn);
  EXPECT_TRUE(parse_model_args(R"({"max_seq_len": 4097})", "c").yarn);
  EXPECT_TRUE(parse_model_args(R"({"max_seq_len": 4096, "yarn": true})", "c").yarn);
  EXPECT_FALSE(parse_model_args(R"({"score_func": "sigmoid"})", "c").gate_bias);
  EXPECT_TRUE(parse_model_args(R"({"score_func": "sigmoid", "gate_bias": true})", "c").gate_bias);
  EXPECT_TRUE(parse_model_args(R"({"scale_fmt": null})", "c").scale_fmt.empty());
}

TEST(Args, WrittenJsonReadsBackTheSame) {
  for (const char* file : {"configs/config_16B.json", "configs/config_v3.1.json", "models/tiny/config.json"}) {
    const ModelArgs args = load_model_args(source_dir() / file);
    const auto out = to_json(args);
    EXPECT_EQ(out, to_json(parse_model_args(out.dump(), file))) << file;
  }
  const auto reference = to_json(load_model_args(source_dir() / "configs/config_671B.json"));
  EXPECT_EQ(reference.size(), 28u);  // the reference's 29 fields without the null scale_fmt, nothing derived
  EXPECT_EQ(reference.begin().key(), "max_batch_size");
  const auto tiny = to_json(load_model_args(source_dir() / "models/tiny/config.json"));
  EXPECT_EQ(tiny["gate_bias"], true);
  EXPECT_EQ(tiny["n_mtp_layers"], 1);
  EXPECT_EQ(tiny["eos_token_ids"], nlohmann::ordered_json::array({1}));
  EXPECT_FALSE(tiny.contains("yarn"));
}

TEST(Args, HuggingFaceConfigReadsBackTheSame) {
  std::vector<ModelArgs> all;
  for (const char* file : {"configs/config_16B.json", "configs/config_236B.json", "configs/config_671B.json",
                           "configs/config_v3.1.json", "models/tiny/config.json"})
    all.push_back(load_model_args(source_dir() / file));
  ModelArgs odd;
  odd.yarn = false;
  odd.original_seq_len = odd.max_seq_len = 4096;
  odd.tie_word_embeddings = true;
  odd.eos_token_ids = {1, 2};
  odd.rope_interleave = false;
  all.push_back(odd);
  odd.yarn = true;
  odd.rope_mscale = 1.25;
  odd.mscale = 0;
  all.push_back(odd);
  for (const ModelArgs& args : all)
    EXPECT_EQ(to_json(parse_model_args(to_hf_config(args).dump(), "written")), to_json(args));
}

TEST(Args, HuggingFaceEqualsReference) {
  for (const char* name : {"v2lite-bf16", "v2lite-short", "v2-bf16", "v3-fp8", "v31-fp8-ue8m0"}) {
    const json golden = json::parse(read_file(golden_dir() / (std::string(name) + ".json")));
    const ModelArgs hf = parse_model_args(golden["config"].dump(), name);
    const ModelArgs reference = parse_model_args(golden["args"].dump(), name);
    EXPECT_EQ(hf.yarn, reference.yarn) << name;
    EXPECT_DOUBLE_EQ(hf.softmax_scale(), reference.softmax_scale()) << name;
    EXPECT_EQ(hf.norm_topk_prob, reference.norm_topk_prob) << name;
    EXPECT_DOUBLE_EQ(hf.rope_mscale, 1.0) << name;
    EXPECT_EQ(hf.gate_bias, golden["config"]["topk_method"] == "noaux_tc") << name;
    auto a = to_json(hf), b = to_json(reference);
    for (const char* key : {"max_seq_len", "max_batch_size", "original_seq_len", "rope_factor", "mscale"})
      a.erase(key), b.erase(key);
    for (const auto& [key, value] : b.items()) EXPECT_EQ(a[key], value) << name << " " << key;
  }
}

TEST(Args, HuggingFaceYarnScales) {
  json config = v3_config();
  config["rope_scaling"]["mscale"] = 0.707;
  config["rope_scaling"]["mscale_all_dim"] = 0;
  const ModelArgs none = parse_model_args(config.dump(), "c");
  EXPECT_DOUBLE_EQ(none.softmax_scale(), std::pow(192.0, -0.5));
  EXPECT_DOUBLE_EQ(none.rope_mscale, 0.1 * 0.707 * std::log(4.0) + 1);
  config["rope_scaling"].erase("mscale");
  config["rope_scaling"].erase("mscale_all_dim");
  EXPECT_DOUBLE_EQ(parse_model_args(config.dump(), "c").rope_mscale, 0.1 * std::log(4.0) + 1);
  config["rope_parameters"] = {{"rope_type", "yarn"}, {"factor", 2}, {"rope_theta", 50000}, {"mscale_all_dim", 1}};
  config.erase("rope_scaling");
  EXPECT_EQ(parse_model_args(config.dump(), "c").rope_theta, 50000);
  EXPECT_EQ(parse_model_args(config.dump(), "c").rope_factor, 2);
  config["rope_parameters"] = {{"rope_type", "default"}};
  EXPECT_FALSE(parse_model_args(config.dump(), "c").yarn);
}

TEST(Args, HuggingFaceChoices) {
  json config = v3_config();
  config["eos_token_id"] = {1, 5};
  config["topk_method"] = "greedy";
  config["num_nextn_predict_layers"] = nullptr;
  config["quantization_config"]["scale_fmt"] = "ue8m0";
  config["norm_topk_prob"] = false;
  const ModelArgs args = parse_model_args(config.dump(), "c");
  EXPECT_EQ(args.eos_token_ids, (std::vector<i64>{1, 5}));
  EXPECT_EQ(args.n_expert_groups, 1);
  EXPECT_FALSE(args.gate_bias);
  EXPECT_FALSE(args.norm_topk_prob);
  EXPECT_EQ(args.n_mtp_layers, 0);
  EXPECT_EQ(args.scale_fmt, "ue8m0");
}

TEST(Args, RefusesForeignModels) {
  EXPECT_EQ(refusal(std::string(R"({"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]})")),
            "c.json: this is a qwen2 model; only deepseek_v2, deepseek_v3 and kimi_k2 are supported");
  EXPECT_NE(refusal(std::string(R"({"architectures": ["LlamaForCausalLM"]})")).find("LlamaForCausalLM"),
            std::string::npos);
  EXPECT_NE(refusal(std::string(R"({"model_type": 3})")).find("model_type must be a text, not 3"), std::string::npos);
}

TEST(Args, BothNamesOfAModelCount) {
  json config = v3_config();
  config["architectures"] = {"InstellaMoEForCausalLM"};
  EXPECT_NE(refusal(config).find("c.json: this is a InstellaMoEForCausalLM model; only"), std::string::npos);
  config["architectures"] = {"DeepseekV2ForCausalLM"};
  EXPECT_EQ(refusal(config), "c.json: model_type is deepseek_v3, but architectures has DeepseekV2ForCausalLM");
  config["architectures"] = "DeepseekV3ForCausalLM";
  EXPECT_NE(refusal(config).find("architectures must be a list of names"), std::string::npos);
  config["architectures"] = nullptr;
  EXPECT_EQ(refusal(config), "");
  for (const char* name : {"deepseek_v32", "kimi_k25"}) {
    config["model_type"] = name;
    EXPECT_NE(refusal(config).find(fmt::format("this is a {} model (", name)), std::string::npos);
  }
}

TEST(Args, KimiK2IsReadAsDeepseekV3) {
  json config = v3_config();
  const auto as_v3 = to_json(parse_model_args(config.dump(), "c"));
  config["model_type"] = "kimi_k2";
  EXPECT_EQ(to_json(parse_model_args(config.dump(), "c")), as_v3);
}

TEST(Args, KeysThatAskForOtherArithmeticAreRefused) {
  struct Case {
    const char* key;
    json value, neutral;
  };
  const Case cases[] = {
      {"use_mla", false, true},
      {"swiglu_limit", 7.0, nullptr},
      {"sliding_window", 4096, nullptr},
      {"index_topk", 2048, nullptr},
      {"index_n_heads", 64, nullptr},
      {"partial_rotary_factor", 0.5, 1.0},
      {"gated_attention", true, false},
      {"farskip", true, false},
      {"qk_latent_layernorm", false, true},
      {"layer_types", {"full_attention", "sliding_attention"}, {"full_attention", "full_attention"}},
      {"logits_scaling", 8, 1.0},
  };
  for (const auto& [key, value, neutral] : cases) {
    json config = v3_config();
    config[key] = value;
    EXPECT_EQ(refusal(config).find(fmt::format("c.json: {} is {}: ", key, value.dump())), 0u) << refusal(config);
    config[key] = neutral;
    EXPECT_EQ(refusal(config), "");
    EXPECT_TRUE(parse_model_args(config.dump(), "c").warnings.empty());
  }
  json config = v3_config();
  config["rope_scaling"]["truncate"] = false;
  EXPECT_EQ(refusal(config).find("c.json: rope_scaling.truncate is false: "), 0u);
}

TEST(Args, UnknownKeysAreToldInOneWarning) {
  EXPECT_TRUE(parse_model_args(v3_config().dump(), "c").warnings.empty());
  json config = v3_config();
  config["made_up"] = 1;
  config["left_out"] = nullptr;
  config["rope_scaling"]["odd\n"] = "x";
  config["quantization_config"]["way"] = {1};
  const auto warnings = parse_model_args(config.dump(), "c.json").warnings;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0],
            "c.json says what nobody here knows, and it is passed over: made_up, rope_scaling.odd\\x0a, "
            "quantization_config.way");
  for (int i = 0; i < 10; ++i) config[fmt::format("made_up_{}", i)] = i;
  EXPECT_NE(parse_model_args(config.dump(), "c").warnings.at(0).find(" and 5 more"), std::string::npos);
}

// The keys of config.json as published with DeepSeek-V2, V3, V3.1 and R1, Moonlight and Kimi-K2, and as transformers
// writes it, beside those of the embedded model.
TEST(Args, PublishedKeysAreAllKnown) {
  json config = v3_config();
  config.update(json::parse(R"({
    "_attn_implementation_autoset": true, "_name_or_path": "x", "attention_dropout": 0.0, "attention_bias": false,
    "auto_map": {"AutoConfig": "configuration_deepseek.DeepseekV3Config"}, "aux_loss_alpha": 0.001, "ep_size": 1,
    "initializer_range": 0.02, "moe_layer_freq": 1, "pretraining_tp": 1, "seq_aux": true, "pad_token_id": 163839,
    "transformers_version": "4.33.1", "use_cache": true, "num_key_value_heads": 4, "head_dim": 64, "qk_head_dim": 192,
    "rope_interleave": true, "dtype": "bfloat16", "output_router_logits": false, "mlp_bias": false,
    "return_dict": true, "output_attentions": false, "output_hidden_states": false, "torchscript": false,
    "is_decoder": false, "is_encoder_decoder": false, "add_cross_attention": false, "pruned_heads": {},
    "chunk_size_feed_forward": 0, "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}, "problem_type": null})"));
  config["rope_parameters"] = config["rope_scaling"];
  config["rope_parameters"]["rope_theta"] = 10000;
  config["rope_parameters"]["rope_type"] = "yarn";
  config["rope_scaling"] = nullptr;
  config["quantization_config"]["scale_fmt"] = "ue8m0";
  config["quantization_config"]["modules_to_not_convert"] = {"lm_head"};
  EXPECT_EQ(parse_model_args(config.dump(), "c").warnings, std::vector<std::string>());
}

TEST(Args, SaysWhetherYarnIsOnAndWhyNot) {
  const auto text = [](const std::string& config) { return parse_model_args(config, "c").yarn_text(); };
  EXPECT_EQ(text("{}"), "YaRN is on: factor 40, from a context of 4096 tokens");
  EXPECT_EQ(text(R"({"max_seq_len": 4096})"), "YaRN is off: max_seq_len (4096) is not above original_seq_len (4096)");
  EXPECT_EQ(text(R"({"max_seq_len": 4096, "yarn": false})"), "YaRN is off: \"yarn\" is false");
  json config = v3_config();
  EXPECT_EQ(text(config.dump()), "YaRN is on: factor 4, from a context of 4096 tokens");
  config["rope_scaling"] = nullptr;
  EXPECT_EQ(text(config.dump()), "YaRN is off: the configuration has no rope_scaling");
  config["rope_scaling"] = {{"rope_type", "default"}};
  EXPECT_EQ(text(config.dump()), "YaRN is off: its rope_type is \"default\"");
}

TEST(Args, RefusesUnsupportedHuggingFaceChoices) {
  struct Case {
    const char* key;
    json value;
    const char* word;  // in the message
  };
  const Case cases[] = {
      {"moe_layer_freq", 2, "moe_layer_freq is 2"},
      {"hidden_act", "gelu", "gelu"},
      {"attention_bias", true, "attention_bias"},
      {"torch_dtype", "float16", "float16"},
      {"topk_method", "top_p", "top_p"},
      {"rope_scaling", {{"type", "linear"}, {"factor", 2}}, "linear"},
      {"rope_scaling", "yarn", "rope_scaling must be an object"},
      {"quantization_config", {{"quant_method", "awq"}}, "awq"},
      {"quantization_config", {{"quant_method", "fp8"}, {"weight_block_size", {64, 64}}}, "[64,64]"},
      {"quantization_config", {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}, {"fmt", "e5m2"}}, "e5m2"},
      {"hidden_size", "7168", "hidden_size must be an integer"},
      {"hidden_size", 7168.5, "not 7168.5"},
      {"num_attention_heads", nullptr, "num_attention_heads is missing"},
      {"tie_word_embeddings", 1, "tie_word_embeddings must be"},
      {"eos_token_id", "x", "eos_token_id"},
      {"eos_token_id", 4096, "eos_token_ids has 4096"},
  };
  for (const auto& [key, value, word] : cases) {
    json config = v3_config();
    config[key] = value;
    const std::string message = refusal(config);
    EXPECT_NE(message.find(word), std::string::npos) << key << ": " << message;
  }
}

TEST(Args, UnknownFieldNamesTheNearest) {
  EXPECT_EQ(refusal(std::string(R"({"n_head": 16})")),
            "c.json: unknown field \"n_head\"; the nearest known one is \"n_heads\"");
}

TEST(Args, RefusesWrongTypes) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"dim": "2048"})", "dim must be an integer, not \"2048\""},
      {R"({"dim": 2048.0})", "dim must be an integer, not 2048.0"},
      {R"({"dim": null})", "dim must be an integer, not null"},
      {R"({"dim": true})", "dim must be an integer, not true"},
      {R"({"dim": 18446744073709551615})", "dim must be an integer, not 18446744073709551615"},
      {R"({"route_scale": "1"})", "route_scale must be a number"},
      {R"({"score_func": 1})", "score_func must be a text, not 1"},
      {R"({"yarn": 1})", "yarn must be true or false, not 1"},
      {R"({"eos_token_ids": 1})", "eos_token_ids must be a list of integers, not 1"},
  };
  for (const auto& [text, message] : cases)
    EXPECT_EQ(refusal(std::string(text)).substr(8, std::string(message).size()), message) << text;
}

TEST(Args, RefusesImpossibleValues) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"dim": 0})", "dim is 0"},
      {R"({"dim": -5})", "dim is -5"},
      {R"({"dim": 9223372036854775807})", "dim is 9223372036854775807"},
      {R"({"n_layers": 100000})", "n_layers is 100000"},
      {R"({"n_dense_layers": 28})", "n_dense_layers is 28"},
      {R"({"n_activated_experts": 65})", "n_activated_experts is 65"},
      {R"({"n_expert_groups": 7})", "n_expert_groups is 7"},
      {R"({"n_expert_groups": 4, "n_limited_groups": 5})", "n_limited_groups is 5"},
      {R"({"n_expert_groups": 16, "n_limited_groups": 1})", "n_activated_experts is 6, but the 1 kept"},
      {R"({"n_expert_groups": 64, "n_limited_groups": 8, "gate_bias": true})", "n_expert_groups is 64"},
      {R"({"qk_rope_head_dim": 63})", "qk_rope_head_dim is 63"},
      {R"({"score_func": "tanh"})", "score_func is \"tanh\""},
      {R"({"dtype": "fp16"})", "dtype is \"fp16\""},
      {R"({"scale_fmt": "e4m3"})", "scale_fmt is \"e4m3\""},
      {R"({"rope_theta": 0})", "rope_theta is 0"},
      {R"({"rope_factor": 0.5})", "rope_factor is 0.5"},
      {R"({"route_scale": -1})", "route_scale is -1"},
      {R"({"rms_norm_eps": 2})", "rms_norm_eps is 2"},
      {R"({"max_batch_size": 0})", "max_batch_size is 0"},
      {R"({"eos_token_ids": [-1]})", "eos_token_ids has -1"},
  };
  for (const auto& [text, message] : cases)
    EXPECT_EQ(refusal(std::string(text)).substr(0, 8 + std::string(message).size()), "c.json: " + std::string(message))
        << text;
}

TEST(Args, RefusesBrokenJson) {
  EXPECT_NE(refusal(std::string("{\"dim\": ")).find("c.json: not valid JSON"), std::string::npos);
  EXPECT_NE(refusal(std::string("[1, 2]")).find("a JSON object is expected"), std::string::npos);
  EXPECT_NE(refusal(std::string(1'000'000, '[')).find("nested deeper than"), std::string::npos);
  EXPECT_NE(refusal(std::string(R"({"dim": 2048, "dim": 4096})")).find("appears twice"), std::string::npos);
  EXPECT_NE(refusal(std::string("{\"di\xff\": 1}")).find("not valid JSON"), std::string::npos);
  EXPECT_NE(refusal(std::string(R"({"dim": 1e999})")).find("not valid JSON"), std::string::npos);
  const std::string unknown = refusal(json{{std::string(100'000, 'a') + "\n", 1}});
  EXPECT_LT(unknown.size(), 400u);
  EXPECT_EQ(unknown.find('\n'), std::string::npos);
}

// The message of the Error of validate_world_size; empty when the size works.
std::string world_refusal(const ModelArgs& args, int world_size) {
  try {
    args.validate_world_size(world_size);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Args, WorldSizes) {
  const ModelArgs v3 = load_model_args(source_dir() / "configs/config_671B.json");
  EXPECT_EQ(world_refusal(v3, 8), "");
  EXPECT_EQ(world_refusal(v3, 16), "");
  EXPECT_EQ(world_refusal(v3, 3).find("Vocabulary size must be divisible by world size (world_size=3)"), 0u);
  const std::string cut = world_refusal(v3, 32);  // 18432 / 32 = 576 = 4.5 blocks
  EXPECT_NE(cut.find("layers.*.ffn.w1.weight"), std::string::npos);
  EXPECT_NE(cut.find("dimension 0"), std::string::npos);
  EXPECT_NE(cut.find("world sizes that work: 1, 2, 4, 8, 16"), std::string::npos);
  ModelArgs odd;
  odd.vocab_size = 3 * 1024;
  // 16 heads of 192 divide by 3 as features, so the next sizes decide: 16 * (128 + 128) does not.
  EXPECT_EQ(world_refusal(odd, 3).find("Output features must be divisible by world size (world_size=3)"), 0u);
  odd.n_heads = 15;
  odd.inter_dim = 10945;
  EXPECT_EQ(world_refusal(odd, 3).find("Output features must be divisible by world size (world_size=3)"), 0u);
  odd.inter_dim = 10944;
  odd.n_shared_experts = 3;
  EXPECT_EQ(world_refusal(odd, 3).find("Number of experts must be divisible by world size (world_size=3)"), 0u);
  odd.n_heads = 14;
  odd.qk_nope_head_dim = odd.v_head_dim = 129;
  odd.qk_rope_head_dim = 66;
  EXPECT_EQ(world_refusal(odd, 3).find("Number of attention heads must be divisible by world size"), 0u);
  EXPECT_NE(world_refusal(odd, 0), "");
}

TEST(Args, ModelFolder) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("fathom-args-test-{}", ::getpid());
  fs::create_directories(folder);
  EXPECT_THROW(load_model_args_of(folder), Error);
  write_file(folder / "args.json", R"({"dim": 1024})");
  EXPECT_EQ(load_model_args_of(folder).dim, 1024);
  write_file(folder / "config.json", v3_config().dump());
  write_file(folder / "generation_config.json", R"({"eos_token_id": [1, 7]})");
  EXPECT_EQ(load_model_args_of(folder).dim, 256);
  EXPECT_EQ(load_model_args_of(folder).eos_token_ids, (std::vector<i64>{1, 7}));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace fathom
