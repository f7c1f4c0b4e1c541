// Names of tensors, Hugging Face <-> reference: part by part and exactly.
#include <algorithm>
#include <span>

#include "checkpoint/checkpoint.h"

namespace fathom {
namespace {

// A part of a name in both namings.
struct Pair {
  std::string_view hf, reference;
};

constexpr Pair kTop[] = {{"model.embed_tokens.weight", "embed.weight"},
                         {"model.norm.weight", "norm.weight"},
                         {"lm_head.weight", "head.weight"}};

// Behind "model.layers.N." and "layers.N.": whole names first, then modules that hold matrices.
constexpr Pair kLayer[] = {
    {"input_layernorm.weight", "attn_norm.weight"},
    {"post_attention_layernorm.weight", "ffn_norm.weight"},
    {"self_attn.q_a_layernorm.weight", "attn.q_norm.weight"},
    {"self_attn.kv_a_layernorm.weight", "attn.kv_norm.weight"},
    {"mlp.gate.weight", "ffn.gate.weight"},
    {"mlp.gate.e_score_correction_bias", "ffn.gate.bias"},
    {"embed_tokens.weight", "embed.weight"},
    {"enorm.weight", "enorm.weight"},
    {"hnorm.weight", "hnorm.weight"},
    {"shared_head.norm.weight", "shared_head.norm.weight"},
    {"shared_head.head.weight", "shared_head.head.weight"},
};

constexpr Pair kMatrices[] = {
    {"self_attn.q_proj", "attn.wq"},
    {"self_attn.q_a_proj", "attn.wq_a"},
    {"self_attn.q_b_proj", "attn.wq_b"},
    {"self_attn.kv_a_proj_with_mqa", "attn.wkv_a"},
    {"self_attn.kv_b_proj", "attn.wkv_b"},
    {"self_attn.o_proj", "attn.wo"},
    {"mlp.gate_proj", "ffn.w1"},
    {"mlp.down_proj", "ffn.w2"},
    {"mlp.up_proj", "ffn.w3"},
    {"mlp.shared_experts.gate_proj", "ffn.shared_experts.w1"},
    {"mlp.shared_experts.down_proj", "ffn.shared_experts.w2"},
    {"mlp.shared_experts.up_proj", "ffn.shared_experts.w3"},
    {"eh_proj", "eh_proj"},
};

constexpr Pair kExpertMatrices[] = {{"gate_proj", "w1"}, {"down_proj", "w2"}, {"up_proj", "w3"}};

// The first of several spellings is the one that is written.
constexpr Pair kKinds[] = {{"weight", "weight"}, {"weight_scale_inv", "scale"}, {"weight_scale", "scale"}};

using Side = std::string_view Pair::*;

std::optional<std::string_view> counterpart(std::span<const Pair> pairs, std::string_view part, Side from, Side to) {
  for (const Pair& pair : pairs)
    if (pair.*from == part) return pair.*to;
  return std::nullopt;
}

// Takes `prefix` off the front of `text`.
bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Takes a number and the dot behind it; "" when there is none or it has a leading zero.
std::string_view take_number(std::string_view& text) {
  constexpr std::size_t kMostDigits = 6;
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const bool plain = digits > 0 && digits <= kMostDigits && (digits == 1 || text[0] != '0');
  if (!plain || digits == text.size() || text[digits] != '.') return {};
  const std::string_view number = text.substr(0, digits);
  text.remove_prefix(digits + 1);
  return number;
}

// A matrix name: module, dot, kind.
std::optional<std::string> matrix(std::span<const Pair> modules, std::string_view name, Side from, Side to) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto module = counterpart(modules, name.substr(0, dot), from, to);
  const auto kind = counterpart(kKinds, name.substr(dot + 1), from, to);
  if (!module || !kind) return std::nullopt;
  return fmt::format("{}.{}", *module, *kind);
}

std::optional<std::string> in_layer(std::string_view name, Side from, Side to) {
  if (const auto whole = counterpart(kLayer, name, from, to)) return std::string(*whole);
  if (auto plain = matrix(kMatrices, name, from, to)) return plain;
  constexpr Pair kExperts{"mlp.experts.", "ffn.experts."};
  if (!take(name, kExperts.*from)) return std::nullopt;
  const std::string_view expert = take_number(name);
  const auto rest = matrix(kExpertMatrices, name, from, to);
  if (expert.empty() || !rest) return std::nullopt;
  return fmt::format("{}{}.{}", kExperts.*to, expert, *rest);
}

std::optional<std::string> translate(std::string_view name, Side from, Side to) {
  if (const auto top = counterpart(kTop, name, from, to)) return std::string(*top);
  constexpr Pair kLayers{"model.layers.", "layers."};
  if (!take(name, kLayers.*from)) return std::nullopt;
  const std::string_view layer = take_number(name);
  const auto rest = in_layer(name, from, to);
  if (layer.empty() || !rest) return std::nullopt;
  return fmt::format("{}{}.{}", kLayers.*to, layer, *rest);
}

}  // namespace

std::optional<std::string> reference_name(std::string_view hf) { return translate(hf, &Pair::hf, &Pair::reference); }

std::optional<std::string> hf_name(std::string_view reference) {
  return translate(reference, &Pair::reference, &Pair::hf);
}

}  // namespace fathom
