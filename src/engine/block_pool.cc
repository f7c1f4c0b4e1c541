#include "engine/block_pool.h"

#include <utility>

namespace fathom {

BlockPool::BlockPool(i64 blocks, i64 block_size) : block_size_(block_size) {
  CHECK(blocks > 0 && block_size > 0, "a cache needs blocks: {} blocks of {} tokens", blocks, block_size);
  states_.resize(static_cast<std::size_t>(blocks));
  empty_.reserve(states_.size());
  for (i64 block = blocks - 1; block >= 0; --block) empty_.push_back(static_cast<std::int32_t>(block));
}

std::size_t BlockPool::KeyHash::operator()(const Key& key) const {
  std::uint64_t hash = static_cast<std::uint64_t>(key.parent) * 0x9e3779b97f4a7c15u;
  for (const TokenId id : key.ids) {
    hash = (hash ^ static_cast<std::uint32_t>(id)) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  }
  return hash;
}

BlockPool::State& BlockPool::state(std::int32_t block) {
  CHECK(block >= 0 && block < blocks(), "block {} of a pool of {}", block, blocks());
  return states_[static_cast<std::size_t>(block)];
}

const BlockPool::State& BlockPool::state(std::int32_t block) const {
  CHECK(block >= 0 && block < blocks(), "block {} of a pool of {}", block, blocks());
  return states_[static_cast<std::size_t>(block)];
}

std::optional<std::int32_t> BlockPool::allocate() {
  std::int32_t block = -1;
  if (!empty_.empty()) {
    block = empty_.back();
    empty_.pop_back();
  } else if (!idle_.empty()) {
    block = idle_.front();
    idle_.pop_front();
    by_content_.erase(by_content_.find(*std::exchange(state(block).key, nullptr)));
  } else {
    return std::nullopt;
  }
  state(block).references = 1;
  return block;
}

BlockPool::Match BlockPool::match(std::span<const TokenId> ids, i64 limit) {
  Match found;
  for (i64 i = 0; i < limit && (i + 1) * block_size_ <= static_cast<i64>(ids.size()); ++i) {
    const auto part = ids.subspan(static_cast<std::size_t>(i * block_size_), static_cast<std::size_t>(block_size_));
    const auto at = by_content_.find(Key{found.serial, {part.begin(), part.end()}});
    if (at == by_content_.end()) break;
    take(at->second.block);
    found.blocks.push_back(at->second.block);
    found.serial = at->second.serial;
  }
  return found;
}

BlockPool::Published BlockPool::publish(std::int32_t block, i64 parent, std::span<const TokenId> ids) {
  State& full = state(block);
  CHECK(full.references > 0 && full.key == nullptr, "block {} cannot be published: {} references, {}", block,
        full.references, full.key == nullptr ? "unpublished" : "already published");
  CHECK(static_cast<i64>(ids.size()) == block_size_, "a full block holds {} tokens, not {}", block_size_, ids.size());
  const auto [at, fresh] = by_content_.try_emplace(Key{parent, {ids.begin(), ids.end()}}, Entry{block, next_serial_});
  const Entry& known = at->second;
  if (fresh) {
    ++next_serial_;
    full.key = &at->first;
  } else {
    take(known.block);
    release(block);
  }
  return {known.block, known.serial};
}

void BlockPool::forget(std::int32_t block) {
  State& used = state(block);
  CHECK(used.references > 0, "block {} is forgotten without being in use", block);
  if (used.key != nullptr) by_content_.erase(by_content_.find(*std::exchange(used.key, nullptr)));
}

void BlockPool::take(std::int32_t block) {
  State& known = state(block);
  if (known.references++ == 0) idle_.erase(known.idle);
}

void BlockPool::release(std::int32_t block) {
  State& used = state(block);
  CHECK(used.references > 0, "block {} is released more often than taken", block);
  if (--used.references > 0) return;
  if (used.key == nullptr) {
    empty_.push_back(block);
  } else {
    used.idle = idle_.insert(idle_.end(), block);
  }
}

}  // namespace fathom
