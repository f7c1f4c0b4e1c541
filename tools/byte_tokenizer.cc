#include "tools/byte_tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace fathom {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kBos = "<｜begin▁of▁sentence｜>";
constexpr const char* kEos = "<｜end▁of▁sentence｜>";

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

void append_utf8(std::string& text, unsigned code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else {
    text += static_cast<char>(0xc0 | code >> 6);
    text += static_cast<char>(0x80 | (code & 0x3f));
  }
}

// Byte-level BPE writes bytes as letters: printable Latin-1 as itself, all others as U+0100 and following.
std::array<std::string, 256> byte_letters() {
  std::array<std::string, 256> letters;
  unsigned next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    append_utf8(letters[byte], itself ? byte : next++);
  }
  return letters;
}

struct Ids {
  i64 bos, eos;
  std::vector<i64> others;  // bytes, then markers
};

Ids assign_ids(const ModelArgs& args) {
  Ids ids{args.bos_token_id >= 0 ? args.bos_token_id : 0, 1, {}};
  if (!args.eos_token_ids.empty()) ids.eos = args.eos_token_ids.front();
  if (ids.eos == ids.bos) ids.bos = ids.eos == 0 ? 1 : 0;
  for (i64 id = 0; static_cast<i64>(ids.others.size()) + 2 < byte_tokenizer_size(); ++id)
    if (id != ids.bos && id != ids.eos) ids.others.push_back(id);
  return ids;
}

Json added_token(i64 id, const char* content, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

Json added_tokens(const Ids& ids) {
  std::vector<std::pair<i64, Json>> rows;
  rows.emplace_back(ids.bos, added_token(ids.bos, kBos, true));
  rows.emplace_back(ids.eos, added_token(ids.eos, kEos, true));
  for (std::size_t i = 0; i < kMarkers.size(); ++i) {
    const i64 id = ids.others[256 + i];
    rows.emplace_back(id, added_token(id, kMarkers[i], i == 0));
  }
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Json list = Json::array();
  for (auto& [id, row] : rows) list.push_back(std::move(row));
  return list;
}

}  // namespace

i64 byte_tokenizer_size() { return 2 + 256 + static_cast<i64>(kMarkers.size()); }

std::string byte_tokenizer_json(const ModelArgs& args) {
  const Ids ids = assign_ids(args);
  const auto letters = byte_letters();
  Json vocab = Json::object();
  for (std::size_t byte = 0; byte < 256; ++byte) vocab[letters[byte]] = ids.others[byte];
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

std::string byte_tokenizer_config_json(const ModelArgs& args) {
  Json out;
  out["add_bos_token"] = true;
  out["add_eos_token"] = false;
  out["bos_token"] = kBos;
  out["eos_token"] = kEos;
  out["pad_token"] = kMarkers[0];
  out["clean_up_tokenization_spaces"] = false;
  out["model_max_length"] = args.max_seq_len;
  out["tokenizer_class"] = "PreTrainedTokenizerFast";
  out["chat_template"] = kTemplate;
  return out.dump(2) + "\n";
}

}  // namespace fathom
