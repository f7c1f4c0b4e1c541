// Tokens by number and by text: the first hash table of a BPE model.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/token_id.h"

namespace fathom {

// Ids above this are refused: tables are as long as the largest id.
inline constexpr TokenId kMaxTokenId = (1 << 22) - 1;

// Texts with ids. Texts are unique, and so are ids.
class TokenTable {
 public:
  // Room for so many texts of so many bytes in all.
  void reserve(std::size_t count, std::size_t bytes);
  // Throws Error if the id is taken; a text that is there already gets the new id. Only if `findable`, find() knows it.
  void add(std::string_view text, TokenId id, bool findable = true);

  // The id of a text, or -1.
  TokenId find(std::string_view text) const {
    if (slots_.empty()) return -1;
    const std::uint64_t hash = hash_of(text);
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
      const Slot slot = slots_[i];
      if (slot.id < 0) return -1;
      if (slot.tag == static_cast<std::uint32_t>(hash >> 32) && this->text(slot.id) == text) return slot.id;
    }
  }
  bool has(TokenId id) const { return id >= 0 && id < size() && entries_[static_cast<std::size_t>(id)].length >= 0; }
  // The id must be there.
  std::string_view text(TokenId id) const {
    const Entry entry = entries_[static_cast<std::size_t>(id)];
    return {bytes_.data() + entry.offset, static_cast<std::size_t>(entry.length)};
  }
  // The largest id and one.
  int size() const { return static_cast<int>(entries_.size()); }
  // Number of texts.
  std::size_t count() const { return count_; }

 private:
  struct Slot {
    std::uint32_t tag;
    TokenId id = -1;
  };
  struct Entry {
    std::uint32_t offset = 0;
    std::int32_t length = -1;
  };

  static std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }
  static std::uint64_t hash_of(std::string_view text) {
    std::uint64_t hash = 0x9E3779B97F4A7C15u ^ text.size();
    const char* p = text.data();
    std::size_t n = text.size();
    std::uint64_t word = 0;
    for (; n >= 8; p += 8, n -= 8) {
      std::memcpy(&word, p, 8);
      hash = mix(hash ^ word, 0xD6E8FEB86659FD93u);
    }
    word = 0;
    if (n > 0) std::memcpy(&word, p, n);
    return mix(hash ^ word, 0xA0761D6478BD642Fu);
  }
  void grow(std::size_t slots);

  std::string bytes_;
  std::vector<Entry> entries_;  // [id]
  std::vector<Slot> slots_;     // a power of two, at most half full
  std::size_t count_ = 0, findable_ = 0;
};

}  // namespace fathom
