// BlockPool: cache blocks by number. Full blocks are kept by content after their sequence ends, so that a later
// sequence with the same beginning finds them. No tensors.
#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/request.h"

namespace fathom {

class BlockPool {
 public:
  // The serial number that stands for an empty prefix.
  static constexpr i64 kRoot = 0;

  BlockPool(i64 blocks, i64 block_size);

  i64 blocks() const { return static_cast<i64>(states_.size()); }
  i64 block_size() const { return block_size_; }
  // Blocks that allocate() can give: the empty ones and those only kept for their content.
  i64 available() const { return static_cast<i64>(empty_.size() + idle_.size()); }
  i64 cached() const { return static_cast<i64>(by_content_.size()); }
  i64 references(std::int32_t block) const { return state(block).references; }

  // An empty block with one reference; the content unused for longest is given up for it. Nothing when all are in use.
  std::optional<std::int32_t> allocate();

  struct Match {
    std::vector<std::int32_t> blocks;  // one reference taken on each
    i64 serial = kRoot;                // of the last one
  };
  // The longest chain of known full blocks, at most `limit`, that holds the beginning of `ids`.
  Match match(std::span<const TokenId> ids, i64 limit);

  struct Published {
    std::int32_t block = 0;
    i64 serial = kRoot;  // of prefix + ids
  };
  // Makes a full block findable: it holds `ids` (block_size of them) after the prefix named `parent`. When another
  // block holds the same already, the caller's reference moves to that one: who holds a findable block therefore holds
  // those before it, and a prefix is given up from its end.
  Published publish(std::int32_t block, i64 parent, std::span<const TokenId> ids);

  // Makes a block in use findable no more, such as one whose content proved wrong.
  void forget(std::int32_t block);

  // Gives back one reference. A findable block without references waits for reuse, the latest released last.
  void release(std::int32_t block);

 private:
  // The parent's serial number stands for the whole prefix before it, so equal keys mean equal prefixes: the chain is
  // hashed, and the ids themselves are compared.
  struct Key {
    i64 parent = kRoot;
    std::vector<TokenId> ids;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  struct Entry {
    std::int32_t block = 0;
    i64 serial = 0;
  };
  using ContentMap = std::unordered_map<Key, Entry, KeyHash>;
  struct State {
    i64 references = 0;
    const Key* key = nullptr;                // of by_content_, when findable
    std::list<std::int32_t>::iterator idle;  // its place in idle_, when findable and without references
  };

  // One more reference on a findable block.
  void take(std::int32_t block);
  State& state(std::int32_t block);
  const State& state(std::int32_t block) const;

  i64 block_size_;
  i64 next_serial_ = kRoot + 1;
  std::vector<State> states_;
  std::vector<std::int32_t> empty_;  // taken from the back
  std::list<std::int32_t> idle_;     // findable, without references; the front is given up first
  ContentMap by_content_;
};

}  // namespace fathom
