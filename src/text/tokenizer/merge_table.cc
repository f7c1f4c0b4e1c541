#include "text/tokenizer/merge_table.h"

#include <bit>

namespace fathom {

MergeTable::MergeTable(std::size_t count) : mask_(std::bit_ceil(count * 2 + 2) - 1), slots_(mask_ + 1) {}

void MergeTable::set(TokenId left, TokenId right, Merge merge) {
  const std::uint64_t key = key_of(left, right);
  std::size_t i = index_of(key);
  while (slots_[i].key != key && slots_[i].key != kEmpty) i = (i + 1) & mask_;
  slots_[i] = {key, merge};
}

}  // namespace fathom
