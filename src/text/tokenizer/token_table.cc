#include "text/tokenizer/token_table.h"

#include <bit>

#include "base/check.h"

namespace fathom {

void TokenTable::reserve(std::size_t count, std::size_t bytes) {
  bytes_.reserve(bytes);
  entries_.reserve(count);
  if (const std::size_t slots = std::bit_ceil(count * 2 + 2); slots > slots_.size()) grow(slots);
}

void TokenTable::grow(std::size_t slots) {
  std::vector<Slot> old(slots);
  old.swap(slots_);
  const std::size_t mask = slots - 1;
  for (const Slot& slot : old) {
    if (slot.id < 0) continue;
    std::size_t i = hash_of(text(slot.id)) & mask;
    while (slots_[i].id >= 0) i = (i + 1) & mask;
    slots_[i] = slot;
  }
}

void TokenTable::add(std::string_view text, TokenId id, bool findable) {
  CHECK(id >= 0 && id <= kMaxTokenId, "tokenizer.json: the id {} of the token {:?} is outside 0..{}", id, text,
        kMaxTokenId);
  if (id >= size()) entries_.resize(static_cast<std::size_t>(id) + 1);
  Entry& entry = entries_[static_cast<std::size_t>(id)];
  CHECK(entry.length < 0, "tokenizer.json: the id {} is given to two tokens, {:?} and {:?}", id, this->text(id), text);
  CHECK(bytes_.size() + text.size() < 0x7FFFFFFF, "tokenizer.json: the vocabulary is larger than 2 GiB");
  entry = {static_cast<std::uint32_t>(bytes_.size()), static_cast<std::int32_t>(text.size())};
  bytes_ += text;
  ++count_;
  if (!findable) return;
  if (++findable_ * 2 > slots_.size()) grow(std::max<std::size_t>(16, slots_.size() * 2));
  const std::uint64_t hash = hash_of(text);
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = hash & mask;
  for (; slots_[i].id >= 0; i = (i + 1) & mask) {
    const bool same = slots_[i].tag == static_cast<std::uint32_t>(hash >> 32) && this->text(slots_[i].id) == text;
    if (same) break;
  }
  slots_[i] = {static_cast<std::uint32_t>(hash >> 32), id};
}

}  // namespace fathom
