#include "text/tokenizer/byte_tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "text/tokenizer/byte_level.h"

namespace fathom {
namespace {

using Json = nlohmann::ordered_json;

// Tokens besides BOS, EOS and the bytes; as in DeepSeek's own file only the padding is "special", so that decoding
// keeps the others.
constexpr std::array kMarkers = {
    "<｜▁pad▁｜>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<think>",
    "</think>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁outputs▁begin｜>",
    "<｜tool▁output▁begin｜>",
    "<｜tool▁output▁end｜>",
    "<｜tool▁outputs▁end｜>",
};

constexpr const char* kTemplate =
    "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}"
    "{% set ns = namespace(system='') %}"
    "{%- for m in messages %}{%- if m['role'] == 'system' %}"
    "{% set ns.system = ns.system + ('\\n\\n' if ns.system else '') + (m['content'] or '') %}"
    "{%- endif %}{%- endfor -%}"
    "{{ bos_token }}{{ ns.system }}"
    "{%- for m in messages %}"
    "{%- if m['role'] == 'user' %}{{ '<｜User｜>' + (m['content'] or '') }}"
    "{%- elif m['role'] == 'assistant' %}{{ '<｜Assistant｜>' + (m['content'] or '') + eos_token }}"
    "{%- elif m['role'] == 'tool' %}{{ '<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>' + (m['content'] or '') + "
    "'<｜tool▁output▁end｜><｜tool▁outputs▁end｜>' }}"
    "{%- endif %}{%- endfor -%}"
    "{% if add_generation_prompt %}{{ '<｜Assistant｜>' }}{% endif %}";

struct Ids {
  TokenId bos, eos;
  std::vector<TokenId> others;  // bytes, then markers
};

Ids assign_ids(ByteTokenizerIds stated) {
  Ids ids{stated.bos >= 0 ? stated.bos : 0, stated.eos >= 0 ? stated.eos : 1, {}};
  if (ids.eos == ids.bos) ids.bos = ids.eos == 0 ? 1 : 0;
  for (TokenId id = 0; static_cast<i64>(ids.others.size()) + 2 < byte_tokenizer_size(); ++id)
    if (id != ids.bos && id != ids.eos) ids.others.push_back(id);
  return ids;
}

Json added_token(TokenId id, std::string_view content, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

Json added_tokens(const Ids& ids) {
  std::vector<std::pair<TokenId, Json>> rows;
  rows.emplace_back(ids.bos, added_token(ids.bos, kByteTokenizerBos, true));
  rows.emplace_back(ids.eos, added_token(ids.eos, kByteTokenizerEos, true));
  for (std::size_t i = 0; i < kMarkers.size(); ++i) {
    const TokenId id = ids.others[256 + i];
    rows.emplace_back(id, added_token(id, kMarkers[i], i == 0));
  }
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Json list = Json::array();
  for (auto& [id, row] : rows) list.push_back(std::move(row));
  return list;
}

}  // namespace

i64 byte_tokenizer_size() { return 2 + 256 + static_cast<i64>(kMarkers.size()); }

std::string byte_tokenizer_json(ByteTokenizerIds stated) {
  const Ids ids = assign_ids(stated);
  Json vocab = Json::object();
  for (std::size_t byte = 0; byte < 256; ++byte)
    vocab[bytes_to_chars(std::string(1, static_cast<char>(byte)))] = ids.others[byte];
  Json out;
  out["version"] = "1.0";
  out["truncation"] = nullptr;
  out["padding"] = nullptr;
  out["added_tokens"] = added_tokens(ids);
  out["normalizer"] = nullptr;
  out["pre_tokenizer"] = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  out["post_processor"] = nullptr;
  out["decoder"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  out["model"] = {{"type", "BPE"},
                  {"dropout", nullptr},
                  {"unk_token", nullptr},
                  {"continuing_subword_prefix", nullptr},
                  {"end_of_word_suffix", nullptr},
                  {"fuse_unk", false},
                  {"byte_fallback", false},
                  {"vocab", vocab},
                  {"merges", Json::array()}};
  return out.dump(1) + "\n";
}

std::string_view byte_tokenizer_template() { return kTemplate; }

std::string byte_tokenizer_config_json(i64 max_seq_len) {
  Json out;
  out["add_bos_token"] = true;
  out["add_eos_token"] = false;
  out["bos_token"] = kByteTokenizerBos;
  out["eos_token"] = kByteTokenizerEos;
  out["pad_token"] = kMarkers[0];
  out["clean_up_tokenization_spaces"] = false;
  out["model_max_length"] = max_seq_len;
  out["tokenizer_class"] = "PreTrainedTokenizerFast";
  out["chat_template"] = kTemplate;
  return out.dump(2) + "\n";
}

}  // namespace fathom
