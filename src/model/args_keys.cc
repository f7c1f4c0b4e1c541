#include "model/args_keys.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "checkpoint/json_text.h"

namespace fathom {
namespace {

using json = nlohmann::json;

// used: it is read. harmless: it does not change what the model computes from tokens. changes: it does, in public
// models of the family or beside it, unless the value is the neutral one.
enum class Use { used, harmless, changes };

struct Key {
  std::string_view name;  // a star at the end stands for any ending
  Use use = Use::used;
  std::string_view reason = {};   // why it is harmless, or what it changes
  std::string_view neutral = {};  // the value, as JSON, that changes nothing; empty: only null does
};

constexpr Use kHarmless = Use::harmless, kChanges = Use::changes;

constexpr Key kTopKeys[] = {
    // Read by args_hf.cc and args_json.cc.
    {"architectures"},
    {"model_type"},
    {"vocab_size"},
    {"hidden_size"},
    {"intermediate_size"},
    {"moe_intermediate_size"},
    {"num_hidden_layers"},
    {"num_nextn_predict_layers"},
    {"num_attention_heads"},
    {"first_k_dense_replace"},
    {"n_routed_experts"},
    {"n_shared_experts"},
    {"num_experts_per_tok"},
    {"n_group"},
    {"topk_group"},
    {"topk_method"},
    {"scoring_func"},
    {"norm_topk_prob"},
    {"routed_scaling_factor"},
    {"q_lora_rank"},
    {"kv_lora_rank"},
    {"qk_nope_head_dim"},
    {"qk_rope_head_dim"},
    {"v_head_dim"},
    {"max_position_embeddings"},
    {"rms_norm_eps"},
    {"rope_theta"},
    {"rope_scaling"},
    {"rope_parameters"},
    {"rope_interleave"},
    {"tie_word_embeddings"},
    {"torch_dtype"},
    {"dtype"},
    {"quantization_config"},
    {"bos_token_id"},
    {"eos_token_id"},

    // The family's, without effect on an answer.
    {"num_key_value_heads", kHarmless, "all heads share one latent"},
    {"head_dim", kHarmless, "widths are those of qk_nope_head_dim, qk_rope_head_dim and v_head_dim"},
    {"qk_head_dim", kHarmless, "the sum of qk_nope_head_dim and qk_rope_head_dim"},
    {"num_local_experts", kHarmless, "another name of n_routed_experts"},
    {"ep_size", kHarmless, "how experts were spread in training"},
    {"pretraining_tp", kHarmless, "how matrices were spread in training"},
    {"aux_loss_alpha", kHarmless, "training"},
    {"seq_aux", kHarmless, "training"},
    {"router_aux_loss_coef", kHarmless, "training"},
    {"output_router_logits", kHarmless, "an output of the library"},
    {"initializer_range", kHarmless, "training"},
    {"attention_dropout", kHarmless, "training"},
    {"hidden_dropout", kHarmless, "training"},
    {"use_cache", kHarmless, "an option of the library"},
    {"unsloth_fixed", kHarmless, "a mark of who published the files"},

    // Other arithmetic, asked for by public models that carry the family's names or nearly so.
    {"hidden_act", kChanges, "another activation", "\"silu\""},
    {"moe_layer_freq", kChanges, "dense layers between those with experts", "1"},
    {"attention_bias", kChanges, "biases on the attention's projections", "false"},
    {"qkv_bias", kChanges, "biases on the attention's projections", "false"},
    {"mlp_bias", kChanges, "biases on the feed-forward projections", "false"},
    {"use_bias", kChanges, "biases on projections", "false"},
    {"lm_head_bias", kChanges, "a bias on the output", "false"},
    {"use_mla", kChanges, "attention without latents", "true"},
    {"mla_scale_q_lora", kChanges, "scaled latents", "false"},
    {"mla_scale_kv_lora", kChanges, "scaled latents", "false"},
    {"qk_latent_layernorm", kChanges, "latents without norms", "true"},
    {"use_qk_norm", kChanges, "norms on queries and keys", "false"},
    {"qk_layernorm", kChanges, "norms on queries and keys", "false"},
    {"gated_attention", kChanges, "gates on the attention's output", "false"},
    {"attn_output_gate", kChanges, "gates on the attention's output", "false"},
    {"use_output_gate", kChanges, "gates on the attention's output", "false"},
    {"farskip", kChanges, "layers that skip their neighbours' results", "false"},
    {"index_*", kChanges, "attention to tokens that an indexer picks"},
    {"indexer_*", kChanges, "attention to tokens that an indexer picks"},
    {"sliding_window", kChanges, "attention to the last tokens alone"},
    {"use_sliding_window", kChanges, "attention to the last tokens alone", "false"},
    {"layer_types", kChanges, "layers with other attention", "\"full_attention\""},
    {"linear_attn_config", kChanges, "layers with linear attention"},
    {"compress_ratios", kChanges, "a compressed context"},
    {"compress_rope_theta", kChanges, "a compressed context"},
    {"swiglu_limit", kChanges, "clamped activations"},
    {"swiglu_alpha", kChanges, "another activation"},
    {"partial_rotary_factor", kChanges, "a rotation of other widths than qk_rope_head_dim", "1"},
    {"attn_logit_softcapping", kChanges, "bounded scores"},
    {"final_logit_softcapping", kChanges, "bounded logits"},
    {"attention_multiplier", kChanges, "another scale of the scores"},
    {"query_pre_attn_scalar", kChanges, "another scale of the scores"},
    {"embedding_multiplier", kChanges, "a scale of the embedding", "1"},
    {"scale_emb", kChanges, "a scale of the embedding", "1"},
    {"residual_multiplier", kChanges, "a scale of each layer's result", "1"},
    {"scale_depth", kChanges, "a scale of each layer's result"},
    {"logits_scaling", kChanges, "a scale of the logits", "1"},
    {"logit_scale", kChanges, "a scale of the logits", "1"},
    {"mup_*", kChanges, "scales between layers"},
    {"hc_*", kChanges, "several residual streams"},
    {"num_hash_layers", kChanges, "layers that choose experts by token", "0"},
    {"n_hash_layers", kChanges, "layers that choose experts by token", "0"},
    {"zero_expert_num", kChanges, "experts without weights", "0"},
    {"o_groups", kChanges, "a grouped output projection"},
    {"o_lora_rank", kChanges, "a grouped output projection"},
    {"compression_config", kChanges, "weights in another format"},
    {"text_config", kChanges, "a model of more than text, whose language model is described inside"},
    {"language_config", kChanges, "a model of more than text, whose language model is described inside"},
    {"vision_config", kChanges, "a model of more than text"},
    {"is_encoder_decoder", kChanges, "an encoder beside the decoder", "false"},
    {"add_cross_attention", kChanges, "an encoder beside the decoder", "false"},
    {"pruned_heads", kChanges, "heads left out", "{}"},

    // Hugging Face's general configuration, written into some files.
    {"_name_or_path", kHarmless, "where the files came from"},
    {"_commit_hash", kHarmless, "where the files came from"},
    {"transformers_version", kHarmless, "what wrote the file"},
    {"transformers.js_config", kHarmless, "another program's"},
    {"auto_map", kHarmless, "where the modelling code lies"},
    {"custom_pipelines", kHarmless, "where the modelling code lies"},
    {"_attn_implementation*", kHarmless, "an option of the library"},
    {"attn_implementation", kHarmless, "an option of the library"},
    {"attn_implementation_autoset", kHarmless, "an option of the library"},
    {"_flash_attn_2_enabled", kHarmless, "an option of the library"},
    {"experts_implementation", kHarmless, "an option of the library"},
    {"_experts_implementation*", kHarmless, "an option of the library"},
    {"return_dict", kHarmless, "an output of the library"},
    {"use_return_dict", kHarmless, "an output of the library"},
    {"return_dict_in_generate", kHarmless, "an output of the library"},
    {"output_hidden_states", kHarmless, "an output of the library"},
    {"output_attentions", kHarmless, "an output of the library"},
    {"output_scores", kHarmless, "an output of the library"},
    {"output_past", kHarmless, "an output of the library"},
    {"keys_to_ignore_at_inference", kHarmless, "an output of the library"},
    {"torchscript", kHarmless, "an option of the library"},
    {"use_bfloat16", kHarmless, "an option of the library"},
    {"tf_legacy_loss", kHarmless, "training"},
    {"gradient_checkpointing", kHarmless, "training"},
    {"xla_device", kHarmless, "an option of the library"},
    {"chunk_size_feed_forward", kHarmless, "memory of the library"},
    {"is_decoder", kHarmless, "what this family is"},
    {"cross_attention_hidden_size", kHarmless, "of encoders"},
    {"tie_encoder_decoder", kHarmless, "of encoders"},
    {"max_length", kHarmless, "how tokens are drawn: flags say that"},
    {"min_length", kHarmless, "how tokens are drawn: flags say that"},
    {"do_sample", kHarmless, "how tokens are drawn: flags say that"},
    {"early_stopping", kHarmless, "how tokens are drawn: flags say that"},
    {"num_beams", kHarmless, "how tokens are drawn: flags say that"},
    {"num_beam_groups", kHarmless, "how tokens are drawn: flags say that"},
    {"diversity_penalty", kHarmless, "how tokens are drawn: flags say that"},
    {"temperature", kHarmless, "how tokens are drawn: flags say that"},
    {"top_k", kHarmless, "how tokens are drawn: flags say that"},
    {"top_p", kHarmless, "how tokens are drawn: flags say that"},
    {"typical_p", kHarmless, "how tokens are drawn: flags say that"},
    {"repetition_penalty", kHarmless, "how tokens are drawn: flags say that"},
    {"length_penalty", kHarmless, "how tokens are drawn: flags say that"},
    {"no_repeat_ngram_size", kHarmless, "how tokens are drawn: flags say that"},
    {"encoder_no_repeat_ngram_size", kHarmless, "how tokens are drawn: flags say that"},
    {"bad_words_ids", kHarmless, "how tokens are drawn: flags say that"},
    {"num_return_sequences", kHarmless, "how tokens are drawn: flags say that"},
    {"forced_bos_token_id", kHarmless, "how tokens are drawn: flags say that"},
    {"forced_eos_token_id", kHarmless, "how tokens are drawn: flags say that"},
    {"remove_invalid_values", kHarmless, "how tokens are drawn: flags say that"},
    {"exponential_decay_length_penalty", kHarmless, "how tokens are drawn: flags say that"},
    {"suppress_tokens", kHarmless, "how tokens are drawn: flags say that"},
    {"begin_suppress_tokens", kHarmless, "how tokens are drawn: flags say that"},
    {"finetuning_task", kHarmless, "of classifiers"},
    {"problem_type", kHarmless, "of classifiers"},
    {"id2label", kHarmless, "of classifiers"},
    {"label2id", kHarmless, "of classifiers"},
    {"num_labels", kHarmless, "of classifiers"},
    {"task_specific_params", kHarmless, "how tokens are drawn: flags say that"},
    {"tokenizer_class", kHarmless, "the tokenizer's files say that"},
    {"prefix", kHarmless, "of the library's pipelines"},
    {"pad_token_id", kHarmless, "nothing is padded"},
    {"sep_token_id", kHarmless, "the tokenizer's files say that"},
    {"decoder_start_token_id", kHarmless, "of encoders"},
};

constexpr Key kRopeKeys[] = {
    {"type"},
    {"rope_type"},
    {"factor"},
    {"original_max_position_embeddings"},
    {"beta_fast"},
    {"beta_slow"},
    {"mscale"},
    {"mscale_all_dim"},
    {"attention_factor"},
    {"rope_theta"},
    {"max_position_embeddings", kHarmless, "a copy of the key outside"},
    {"truncate", kChanges, "a ramp between unrounded dimensions", "true"},
    {"partial_rotary_factor", kChanges, "a rotation of other widths than qk_rope_head_dim", "1"},
    {"mrope_section", kChanges, "positions of several dimensions"},
    {"low_freq_factor", kChanges, "another way of scaling"},
    {"high_freq_factor", kChanges, "another way of scaling"},
    {"short_factor", kChanges, "another way of scaling"},
    {"long_factor", kChanges, "another way of scaling"},
};

constexpr Key kQuantizationKeys[] = {
    {"quant_method"},
    {"fmt"},
    {"activation_scheme"},
    {"weight_block_size"},
    {"scale_fmt"},
    {"modules_to_not_convert", kHarmless, "each tensor's own type says it"},
    {"ignored_layers", kHarmless, "each tensor's own type says it"},
    {"dequantize", kHarmless, "an option of the library"},
    {"quantization_status", kHarmless, "a mark of who wrote the file"},
    {"version", kHarmless, "a mark of who wrote the file"},
    {"kv_cache_scheme", kHarmless, "the cache's type is chosen by --compute"},
    {"kv_cache_quant_algo", kHarmless, "the cache's type is chosen by --compute"},
};

template <std::size_t N>
const Key* find_key(const Key (&keys)[N], std::string_view name) {
  const auto fits = [&](const Key& key) {
    return key.name.ends_with('*') ? name.starts_with(key.name.substr(0, key.name.size() - 1)) : key.name == name;
  };
  const auto found = std::find_if(std::begin(keys), std::end(keys), fits);
  return found == std::end(keys) ? nullptr : found;
}

// The neutral value, or a list of nothing else.
bool is_neutral(const json& value, std::string_view neutral) {
  if (neutral.empty()) return false;
  const json wanted = json::parse(neutral);
  return value == wanted || (value.is_array() &&
                             std::all_of(value.begin(), value.end(), [&](const json& item) { return item == wanted; }));
}

template <std::size_t N>
void judge(const Key (&keys)[N], const std::string& section, const json& object, const std::string& source,
           std::vector<std::string>& unknown) {
  for (const auto& [name, value] : object.items()) {
    if (value.is_null()) continue;
    const Key* key = find_key(keys, name);
    if (key == nullptr) {
      unknown.push_back(section + name);
      continue;
    }
    CHECK(key->use != Use::changes || is_neutral(value, key->neutral),
          "{}: {}{} is {}: {}, which is not supported; only {} is", source, section, shown(name), shown_json(value),
          key->reason, key->neutral.empty() ? "null" : key->neutral);
  }
}

}  // namespace

std::vector<std::string> judge_keys(const json& config, const std::string& source_name) {
  std::vector<std::string> unknown;
  judge(kTopKeys, "", config, source_name, unknown);
  for (const char* rope : {"rope_scaling", "rope_parameters"})
    if (const auto found = config.find(rope); found != config.end() && found->is_object())
      judge(kRopeKeys, std::string(rope) + ".", *found, source_name, unknown);
  if (const auto found = config.find("quantization_config"); found != config.end() && found->is_object())
    judge(kQuantizationKeys, "quantization_config.", *found, source_name, unknown);
  return unknown;
}

std::string unknown_keys_text(const std::vector<std::string>& keys, const std::string& source_name) {
  constexpr std::size_t kNamed = 8;
  std::string names;
  for (std::size_t i = 0; i < std::min(keys.size(), kNamed); ++i) names += (i == 0 ? "" : ", ") + shown(keys[i]);
  if (keys.size() > kNamed) names += fmt::format(" and {} more", keys.size() - kNamed);
  return fmt::format("{} says what nobody here knows, and it is passed over: {}", source_name, names);
}

}  // namespace fathom
