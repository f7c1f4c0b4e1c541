// The "added_tokens" of tokenizer.json: texts that become one id wherever they stand.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/token_id.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/text_finder.h"
#include "text/tokenizer/token_table.h"

namespace fathom {

struct AddedToken {
  std::string content;
  std::string normalized_content;  // what is looked for in normalised text, if `normalized`
  TokenId id = -1;
  bool special = false, normalized = false, lstrip = false, rstrip = false, single_word = false;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  // Ids come from the vocabulary where it has the text, else from the file.
  AddedTokens(const nlohmann::json& list, const TokenTable& vocab, const Normalizer* normalizer);

  // A stretch of text, or an added token when id >= 0.
  struct Segment {
    std::string_view text;
    TokenId id = -1;
  };
  // Cuts the text at the tokens that are looked for before (false) or after (true) normalisation.
  void split(std::string_view text, bool normalized, std::vector<Segment>& out) const;
  bool any(bool normalized) const { return !(normalized ? after_ : before_).empty(); }

  const AddedToken* by_id(TokenId id) const;
  // The id of a token's content, or -1.
  TokenId find(const std::string& content) const;
  // Whether a text, as it is decoded, is that of a special token.
  bool is_special(const std::string& text) const { return special_.contains(text); }
  // The largest id and one; 0 without tokens.
  int size() const { return size_; }

 private:
  std::vector<AddedToken> tokens_;
  TextFinder before_, after_;                       // values: index into tokens_
  std::unordered_map<TokenId, std::size_t> by_id_;  // id -> index into tokens_
  std::unordered_map<std::string, TokenId> by_content_;
  std::unordered_set<std::string> special_;
  int size_ = 0;
};

}  // namespace fathom
