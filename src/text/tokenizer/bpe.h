// Byte-pair encoding: the pieces of a text to token ids.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/token_id.h"
#include "text/tokenizer/merge_table.h"
#include "text/tokenizer/token_table.h"
#include "text/tokenizer/tokenizer_file.h"

namespace fathom {

class Bpe {
 public:
  // Room to work in; one a thread, reused from piece to piece.
  struct Scratch {
    std::vector<TokenId> ids;
    std::vector<std::uint32_t> ranks;
    std::vector<std::int32_t> next, previous;
    std::vector<std::uint64_t> heap;  // rank << 32 | position
    std::string text;
  };

  // `bytes`: pieces are bytes that stand for characters of the byte-level alphabet.
  Bpe(TokenizerFile&& file, bool bytes);

  // Appends the ids of one piece.
  void encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;

  const TokenTable& vocab() const { return vocab_; }

 private:
  struct Symbols;
  void read_options(const nlohmann::json& model);
  // Returns, by id, the rank of the first merge that has the token as a side.
  std::vector<std::uint32_t> read_merges(const MergeTexts& merges);
  void make_byte_tables();
  void make_char_table(const std::vector<std::uint32_t>& first_use);
  bool joins_to(std::string_view bytes, TokenId id, std::uint32_t& last_rank) const;
  void split_bytes(std::string_view piece, Symbols& symbols) const;
  void split_chars(std::string_view piece, Symbols& symbols) const;
  bool fall_back_to_bytes(std::string_view text, std::vector<TokenId>& ids) const;
  void merge_short(Scratch& scratch) const;
  void merge_long(Scratch& scratch) const;
  void merge(std::string_view piece, Scratch& scratch) const;

  TokenTable vocab_;
  TokenTable raw_;  // byte-level tokens by the bytes they stand for; used when bytes_
  MergeTable merges_;
  bool bytes_;             // symbols are the piece's bytes
  bool to_chars_ = false;  // the piece's bytes have to be written as characters first
  bool fuse_unk_ = false, byte_fallback_ = false, ignore_merges_ = false;
  TokenId unk_ = -1;
  std::string prefix_, suffix_;  // continuing_subword_prefix, end_of_word_suffix
  // [code point below 0x10000] -> the token of this character where its bytes may be joined before anything else
  // without changing the result, else -1. Chinese text has a third of the symbols this way.
  std::vector<TokenId> char_ids_;
  std::array<TokenId, 256> byte_ids_{};      // [byte] -> id of its character, or -1
  std::array<TokenId, 256> fallback_ids_{};  // [byte] -> id of <0xXX>, or -1
  // [id]: is the token's own text encoded as this one token? 0 not known yet, 1 yes, 2 no. Each is found out when first
  // met; threads may find out the same at once, with the same result.
  std::unique_ptr<std::atomic<std::uint8_t>[]> whole_;
};

}  // namespace fathom
