#include "text/tokenizer/added_tokens.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "text/tokenizer/json_fields.h"
#include "text/unicode/classes.h"
#include "text/unicode/utf8.h"

namespace fathom {
namespace {

constexpr const char* kRole = "added token";

AddedToken read_token(const nlohmann::json& object) {
  AddedToken token;
  token.content = json_string(object, kRole, "content");
  const long id = json_count(object, kRole, "id");
  CHECK(id <= kMaxTokenId, "tokenizer.json: the id {} of the added token {:?} is outside 0..{}", id, token.content,
        kMaxTokenId);
  token.id = static_cast<TokenId>(id);
  token.special = json_bool(object, kRole, "special");
  token.normalized = json_bool(object, kRole, "normalized");
  token.lstrip = json_bool(object, kRole, "lstrip");
  token.rstrip = json_bool(object, kRole, "rstrip");
  token.single_word = json_bool(object, kRole, "single_word");
  return token;
}

bool word_before(std::string_view text, std::size_t at) { return at > 0 && is_word(previous_char(text, at)); }
bool word_after(std::string_view text, std::size_t at) { return at < text.size() && is_word(next_char(text, at)); }

// Moves `begin` left over white space, not below `floor`.
std::size_t skip_space_left(std::string_view text, std::size_t begin, std::size_t floor) {
  for (std::size_t at = begin; at > floor && is_space(previous_char(text, at));) begin = at;
  return std::max(begin, floor);
}

std::size_t skip_space_right(std::string_view text, std::size_t end) {
  for (std::size_t at = end; at < text.size() && is_space(next_char(text, at));) end = at;
  return end;
}

}  // namespace

AddedTokens::AddedTokens(const nlohmann::json& list, const TokenTable& vocab, const Normalizer* normalizer) {
  if (list.is_null()) return;
  CHECK(list.is_array(), "tokenizer.json: \"added_tokens\" must be an array, not {}", list.type_name());
  for (const auto& object : list) {
    AddedToken token = read_token(object);
    if (token.content.empty()) continue;
    if (const TokenId known = vocab.find(token.content); known >= 0) token.id = known;
    NormalizedText text{token.content};
    if (token.normalized && normalizer != nullptr) normalizer->apply(text);
    token.normalized_content = std::move(text.text);

    const auto twin = by_content_.find(token.content);
    if (twin != by_content_.end()) token.id = twin->second;
    if (const auto taken = by_id_.find(token.id); taken != by_id_.end()) {
      AddedToken& before = tokens_[taken->second];
      CHECK(before.content == token.content, "tokenizer.json: the id {} is given to two added tokens, {:?} and {:?}",
            token.id, before.content, token.content);
      before = std::move(token);  // the last description of the same token counts
      continue;
    }
    by_content_[token.content] = token.id;
    by_id_[token.id] = tokens_.size();
    size_ = std::max(size_, token.id + 1);
    tokens_.push_back(std::move(token));
  }
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& token = tokens_[i];
    if (token.special) special_.insert(token.content);
    const std::string& wanted = token.normalized ? token.normalized_content : token.content;
    if (!wanted.empty()) (token.normalized ? after_ : before_).add(wanted, static_cast<int>(i));
  }
}

void AddedTokens::split(std::string_view text, bool normalized, std::vector<Segment>& out) const {
  const TextFinder& finder = normalized ? after_ : before_;
  std::size_t done = 0, space_end = 0;
  for (auto match = finder.find(text, 0); match.value >= 0; match = finder.find(text, match.end)) {
    const AddedToken& token = tokens_[static_cast<std::size_t>(match.value)];
    std::size_t begin = match.begin, end = match.end;
    if (token.single_word && (word_before(text, begin) || word_after(text, end))) continue;
    // Spaces that the token before has taken are not looked at again: no quadratic walk over a long run.
    if (token.lstrip) begin = begin <= done ? done : skip_space_left(text, begin, done);
    if (token.rstrip) {
      if (end >= space_end) space_end = skip_space_right(text, end);
      end = space_end;
    }
    if (begin == end) continue;  // all of it went with the token before
    if (done < begin) out.push_back({text.substr(done, begin - done)});
    out.push_back({text.substr(match.begin, match.end - match.begin), token.id});
    done = end;
  }
  if (done < text.size()) out.push_back({text.substr(done)});
}

const AddedToken* AddedTokens::by_id(TokenId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

TokenId AddedTokens::find(const std::string& content) const {
  const auto found = by_content_.find(content);
  return found == by_content_.end() ? -1 : found->second;
}

}  // namespace fathom
