#include "text/tokenizer/tiktoken_file.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.h"
#include "text/tokenizer/byte_level.h"

namespace fathom {
namespace {

using nlohmann::json;

constexpr int kReserved = 256;  // ids for special tokens behind the vocabulary
constexpr const char* kKimiPattern =
    R"([\p{Han}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

// False if it is not base64.
bool decode_base64(std::string_view text, std::string& out) {
  out.clear();
  if (text.empty() || text.size() % 4 != 0) return false;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  unsigned bits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int value = i < text.size() - padding ? base64_value(text[i]) : 0;
    if (value < 0) return false;
    bits = bits << 6 | static_cast<unsigned>(value);
    if (i % 4 != 3) continue;
    for (int shift = 16; shift >= 0; shift -= 8) out += static_cast<char>(bits >> shift & 0xFF);
    bits = 0;
  }
  out.resize(out.size() - padding);
  return true;
}

struct RankedToken {
  TokenId rank = -1;
  std::string bytes;
};

std::vector<RankedToken> read_ranks(std::string_view model) {
  std::vector<RankedToken> tokens;
  for (std::size_t at = 0, number = 1; at < model.size(); ++number) {
    const std::size_t end = std::min(model.find('\n', at), model.size());
    std::string_view line = model.substr(at, end - at);
    at = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::size_t space = std::min(line.find(' '), line.size());
    RankedToken token;
    const char* digits = line.data() + std::min(space + 1, line.size());
    const auto [stop, error] = std::from_chars(digits, line.data() + line.size(), token.rank);
    const bool good =
        error == std::errc() && stop == line.data() + line.size() && decode_base64(line.substr(0, space), token.bytes);
    CHECK(good && token.rank >= 0 && token.rank <= kMaxTokenId,
          "tiktoken.model: line {} must be BASE64 and a rank of 0..{}, not {:?}", number, kMaxTokenId, line);
    tokens.push_back(std::move(token));
  }
  std::sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return tokens;
}

// tiktoken joins the neighbours whose bytes together have the lowest rank, so every way to cut a token in two is a
// merge.
void add_tokens(const std::vector<RankedToken>& tokens, TokenizerFile& file) {
  TokenTable raw;
  raw.reserve(tokens.size(), tokens.size() * 8);
  file.vocab.reserve(tokens.size(), tokens.size() * 12);
  for (const RankedToken& token : tokens) {
    CHECK(raw.find(token.bytes) < 0, "tiktoken.model: rank {} has the bytes of rank {}", token.rank,
          raw.find(token.bytes));
    raw.add(token.bytes, token.rank);
    file.vocab.add(bytes_to_chars(token.bytes), token.rank);
  }
  for (int byte = 0; byte < 256; ++byte)
    CHECK(raw.find(std::string(1, static_cast<char>(byte))) >= 0, "tiktoken.model: the byte {:#04x} has no token",
          byte);
  for (const RankedToken& token : tokens) {
    const std::string_view bytes = token.bytes;
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
      const TokenId left = raw.find(bytes.substr(0, cut)), right = raw.find(bytes.substr(cut));
      if (left >= 0 && right >= 0)
        file.merges.add(file.vocab.text(left), file.vocab.text(right), static_cast<std::uint32_t>(token.rank));
    }
  }
  file.has_vocab = file.has_merges = true;
}

json added_token(TokenId id, const std::string& content, bool special) {
  return {{"id", static_cast<unsigned>(id)},
          {"content", content},
          {"special", special},
          {"normalized", false},
          {"lstrip", false},
          {"rstrip", false},
          {"single_word", false}};
}

std::map<TokenId, json> named_tokens(std::string_view config_text) {
  std::map<TokenId, json> tokens;
  if (config_text.empty()) return tokens;
  const json config = json::parse(config_text, nullptr, false);
  CHECK(config.is_object(), "tokenizer_config.json is not a valid JSON object");
  const auto list = config.find("added_tokens_decoder");
  if (list == config.end()) return tokens;
  CHECK(list->is_object(), "tokenizer_config.json: added_tokens_decoder must be an object, not {}", list->type_name());
  for (const auto& [key, token] : list->items()) {
    TokenId id = -1;
    const auto [stop, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    const bool good = error == std::errc() && stop == key.data() + key.size() && id >= 0 && id <= kMaxTokenId &&
                      token.is_object() && token.contains("content") && token["content"].is_string();
    CHECK(good, "tokenizer_config.json: added_tokens_decoder has {:?}: {}, not an id with \"content\"", key,
          token.dump(-1, ' ', false, json::error_handler_t::replace));
    const bool special = !token.contains("special") || token["special"] == true;
    tokens[id] = added_token(id, token["content"].get<std::string>(), special);
  }
  return tokens;
}

// The raw strings of `pat_str = "|".join([r"""...""", ...])`, joined; the program is read, never run.
std::string pattern_of(std::string_view code) {
  if (code.empty()) return kKimiPattern;
  constexpr std::string_view kOpen = "r\"\"\"", kClose = "\"\"\"";
  std::size_t at = code.find("pat_str = \"|\".join(");
  CHECK(at != std::string_view::npos, "the tokenizer's program has no pattern of the form pat_str = \"|\".join([...])");
  std::string pattern;
  for (at = code.find('[', at);;) {
    at = code.find_first_not_of(" \t\r\n,[", at);
    if (at == std::string_view::npos || !code.substr(at).starts_with(kOpen)) break;
    const std::size_t begin = at + kOpen.size(), end = code.find(kClose, begin);
    CHECK(end != std::string_view::npos, "the tokenizer's program has an unclosed string in pat_str");
    if (!pattern.empty()) pattern += '|';
    pattern += code.substr(begin, end - begin);
    at = end + kClose.size();
  }
  CHECK(at != std::string_view::npos && code[at] == ']' && !pattern.empty(),
        "the tokenizer's program has a pat_str that is no list of raw strings");
  return pattern;
}

}  // namespace

TokenizerFile read_tiktoken(std::string_view model, std::string_view tokenizer_config_json, std::string_view code) {
  TokenizerFile file;
  const std::vector<RankedToken> tokens = read_ranks(model);
  CHECK(!tokens.empty(), "tiktoken.model is empty");
  add_tokens(tokens, file);
  auto added = named_tokens(tokenizer_config_json);
  const TokenId base = file.vocab.size();
  for (TokenId id = base; id < base + kReserved; ++id)
    if (!added.contains(id)) added[id] = added_token(id, fmt::format("<|reserved_token_{}|>", id), true);
  json& rest = *file.rest;
  rest = {{"model", {{"type", "BPE"}, {"ignore_merges", true}}}, {"added_tokens", json::array()}};
  for (auto& [id, token] : added) rest["added_tokens"].push_back(std::move(token));
  const json split = {
      {"type", "Split"}, {"pattern", {{"Regex", pattern_of(code)}}}, {"behavior", "Isolated"}, {"invert", false}};
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  rest["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}};
  rest["decoder"] = {{"type", "ByteLevel"}};
  return file;
}

std::filesystem::path find_tokenizer_code(const std::filesystem::path& model_dir) {
  std::filesystem::path found;
  for (const auto& entry : std::filesystem::directory_iterator(model_dir)) {
    const std::string name = entry.path().filename().string();
    const bool fits = name.starts_with("tokenization_") && name.ends_with(".py");
    if (fits && (found.empty() || entry.path() < found)) found = entry.path();
  }
  return found;
}

}  // namespace fathom
