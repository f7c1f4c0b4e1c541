// Merge pairs by their two ids: the second hash table of a BPE model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/token_id.h"

namespace fathom {

// (left id, right id) -> rank and merged id.
class MergeTable {
 public:
  struct Merge {
    std::uint32_t rank;
    TokenId id;
  };
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  explicit MergeTable(std::size_t count = 0);
  // A pair that is there already gets the new values. At most `count` pairs.
  void set(TokenId left, TokenId right, Merge merge);
  // rank == kNone when there is no such merge.
  Merge find(TokenId left, TokenId right) const {
    const std::uint64_t key = key_of(left, right);
    for (std::size_t i = index_of(key);; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.key == key || slot.key == kEmpty) return slot.merge;
    }
  }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = kEmpty;
    Merge merge{kNone, -1};
  };
  static std::uint64_t key_of(TokenId left, TokenId right) {
    return (static_cast<std::uint64_t>(left) << 32) | static_cast<std::uint32_t>(right);
  }
  std::size_t index_of(std::uint64_t key) const { return ((key ^ (key >> 29)) * 0x9E3779B97F4A7C15u >> 20) & mask_; }

  std::size_t mask_;
  std::vector<Slot> slots_;
};

}  // namespace fathom
