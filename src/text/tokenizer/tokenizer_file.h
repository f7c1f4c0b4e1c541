// tokenizer.json as it lies on the disk: the two large tables read in one pass, everything else as JSON.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/token_table.h"

namespace fathom {

// The merge rules in their order, as texts. The rank of a rule is its number, unless ranks are given with all of them.
class MergeTexts {
 public:
  void add(std::string_view left, std::string_view right);
  void add(std::string_view left, std::string_view right, std::uint32_t rank) {
    add(left, right);
    ranks_.push_back(rank);
  }
  std::size_t size() const { return lengths_.size() / 2; }
  // Calls each(rank, left, right).
  template <typename Each>
  void for_each(const Each& each) const {
    std::size_t at = 0;
    for (std::size_t i = 0; i < size(); ++i) {
      const std::string_view left(bytes_.data() + at, lengths_[2 * i]);
      const std::string_view right(bytes_.data() + at + left.size(), lengths_[2 * i + 1]);
      at += left.size() + right.size();
      each(ranks_.empty() ? i : ranks_[i], left, right);
    }
  }

 private:
  std::string bytes_;
  std::vector<std::uint32_t> lengths_, ranks_;
};

struct TokenizerFile {
  TokenizerFile();
  TokenizerFile(TokenizerFile&&) noexcept;
  ~TokenizerFile();

  TokenTable vocab;
  MergeTexts merges;
  bool has_vocab = false, has_merges = false;
  std::unique_ptr<nlohmann::json> rest;  // all but model.vocab and model.merges
};

// Throws Error with the place of a mistake in the text.
TokenizerFile parse_tokenizer_file(std::string_view text);

}  // namespace fathom
