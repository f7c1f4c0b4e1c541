#include "engine/block_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace fathom {
namespace {

using Ids = std::vector<TokenId>;

TEST(BlockPool, GivesEveryBlockOnceAndTakesItBack) {
  BlockPool pool(3, 4);
  EXPECT_EQ(pool.available(), 3);
  const auto a = pool.allocate(), b = pool.allocate(), c = pool.allocate();
  ASSERT_TRUE(a && b && c);
  EXPECT_NE(*a, *b);
  EXPECT_NE(*b, *c);
  EXPECT_NE(*a, *c);
  EXPECT_FALSE(pool.allocate());
  pool.release(*b);
  EXPECT_EQ(pool.allocate(), b);
}

TEST(BlockPool, RefusesMisuse) {
  EXPECT_THROW(BlockPool(0, 4), Error);
  EXPECT_THROW(BlockPool(4, 0), Error);
  BlockPool pool(2, 2);
  EXPECT_THROW(pool.release(0), Error);
  EXPECT_THROW(pool.release(-1), Error);
  EXPECT_THROW(pool.release(2), Error);
  EXPECT_THROW(pool.publish(0, BlockPool::kRoot, Ids{1, 2}), Error);
  const auto block = *pool.allocate();
  EXPECT_THROW(pool.publish(block, BlockPool::kRoot, Ids{1}), Error);
  pool.publish(block, BlockPool::kRoot, Ids{1, 2});
  EXPECT_THROW(pool.publish(block, BlockPool::kRoot, Ids{3, 4}), Error);
}

TEST(BlockPool, FindsTheLongestKnownBeginning) {
  BlockPool pool(4, 2);
  const auto a = *pool.allocate(), b = *pool.allocate();
  const i64 first = pool.publish(a, BlockPool::kRoot, Ids{1, 2}).serial;
  pool.publish(b, first, Ids{3, 4});
  pool.release(b);
  pool.release(a);
  EXPECT_EQ(pool.available(), 4);
  EXPECT_EQ(pool.match(Ids{1, 2, 3, 5}, 9).blocks, (std::vector{a}));
  EXPECT_EQ(pool.match(Ids{3, 4}, 9).blocks, std::vector<std::int32_t>{});  // known, but not as a beginning
  EXPECT_EQ(pool.match(Ids{1, 2, 3}, 9).blocks, (std::vector{a}));
  EXPECT_EQ(pool.match(Ids{1, 2, 3, 4, 5}, 9).blocks, (std::vector{a, b}));
  EXPECT_EQ(pool.match(Ids{1, 2, 3, 4, 5}, 1).blocks, (std::vector{a}));
  EXPECT_EQ(pool.references(a), 4);
  EXPECT_EQ(pool.references(b), 1);
  EXPECT_EQ(pool.available(), 2);
}

TEST(BlockPool, GivesUpTheLongestUnusedFirst) {
  BlockPool pool(2, 1);
  const auto a = *pool.allocate(), b = *pool.allocate();
  pool.publish(a, BlockPool::kRoot, Ids{1});
  pool.publish(b, BlockPool::kRoot, Ids{2});
  pool.release(a);
  pool.release(b);
  for (const auto block : pool.match(Ids{1}, 1).blocks) pool.release(block);  // used again
  EXPECT_EQ(*pool.allocate(), b);
  EXPECT_TRUE(pool.match(Ids{2}, 1).blocks.empty());
  EXPECT_EQ(pool.match(Ids{1}, 1).blocks, (std::vector{a}));
}

TEST(BlockPool, KeepsOneOfTwoBlocksWithEqualContent) {
  BlockPool pool(3, 1);
  const auto a = *pool.allocate(), b = *pool.allocate(), c = *pool.allocate();
  const i64 serial = pool.publish(a, BlockPool::kRoot, Ids{7}).serial;
  const auto known = pool.publish(b, BlockPool::kRoot, Ids{7});
  EXPECT_EQ(known.block, a);  // b is given back for it
  EXPECT_EQ(known.serial, serial);
  EXPECT_EQ(pool.references(a), 2);
  EXPECT_EQ(pool.references(b), 0);
  pool.publish(c, serial, Ids{8});
  EXPECT_EQ(pool.cached(), 2);
  EXPECT_EQ(pool.match(Ids{7, 8}, 2).blocks, (std::vector{a, c}));
}

// The second holder of a beginning outlives the first; what it added is found as long as the beginning is.
TEST(BlockPool, PrefixesAreGivenUpFromTheirEnd) {
  BlockPool pool(3, 1);
  const auto a = *pool.allocate(), b = *pool.allocate();
  pool.publish(a, BlockPool::kRoot, Ids{7});
  const auto parent = pool.publish(b, BlockPool::kRoot, Ids{7});
  const auto c = *pool.allocate();
  pool.publish(c, parent.serial, Ids{8});
  pool.release(a);  // the first holder ends, then the second
  pool.release(c), pool.release(parent.block);
  pool.allocate();  // b was given back
  EXPECT_EQ(*pool.allocate(), c);
  EXPECT_EQ(pool.match(Ids{7, 8}, 2).blocks, (std::vector{a}));
}

TEST(BlockPool, ForgottenBlocksAreNotFound) {
  BlockPool pool(2, 1);
  const auto a = *pool.allocate();
  EXPECT_THROW(pool.forget(1 - a), Error);
  pool.publish(a, BlockPool::kRoot, Ids{7});
  pool.forget(a), pool.forget(a);
  EXPECT_TRUE(pool.match(Ids{7}, 1).blocks.empty());
  EXPECT_EQ(pool.cached(), 0);
  pool.release(a);
  EXPECT_EQ(pool.available(), 2);
  EXPECT_EQ(*pool.allocate(), a);  // empty, not kept for its content
}

// Random scripts against a plain record of what every block holds.
TEST(BlockPool, RandomScriptsKeepTheirInvariants) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    const i64 blocks = 1 + static_cast<i64>(random() % 9), size = 1 + static_cast<i64>(random() % 3);
    BlockPool pool(blocks, size);
    struct Held {
      std::vector<std::int32_t> blocks;
      Ids ids;
    };
    std::vector<Held> held;
    std::map<std::int32_t, Ids> holds;  // block -> the whole prefix it ends
    for (int action = 0; action < 60; ++action) {
      if (random() % 2 == 0 || held.empty()) {
        Ids ids(random() % (4 * static_cast<std::size_t>(size) + 1));
        for (TokenId& id : ids) id = static_cast<TokenId>(random() % 2);
        auto found = pool.match(ids, static_cast<i64>(random() % 5));
        for (std::size_t i = 0; i < found.blocks.size(); ++i)
          ASSERT_EQ(holds[found.blocks[i]], Ids(ids.begin(), ids.begin() + static_cast<i64>(i + 1) * size));
        while (static_cast<i64>(found.blocks.size() + 1) * size <= static_cast<i64>(ids.size())) {
          const auto block = pool.allocate();
          if (!block) break;
          const auto start = ids.begin() + static_cast<i64>(found.blocks.size()) * size;
          const auto known = pool.publish(*block, found.serial, Ids(start, start + size));
          found.serial = known.serial;
          holds[known.block] = Ids(ids.begin(), start + size);
          found.blocks.push_back(known.block);
        }
        held.push_back({found.blocks, ids});
      } else {
        const std::size_t victim = random() % held.size();
        for (auto block = held[victim].blocks.rbegin(); block != held[victim].blocks.rend(); ++block)
          pool.release(*block);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(victim));
      }
      std::map<std::int32_t, i64> references;
      for (const Held& one : held)
        for (const auto block : one.blocks) ++references[block];
      for (std::int32_t block = 0; block < blocks; ++block) ASSERT_EQ(pool.references(block), references[block]);
      std::erase_if(references, [](const auto& entry) { return entry.second == 0; });
      ASSERT_EQ(pool.available(), blocks - static_cast<i64>(references.size()));
    }
  }
}

}  // namespace
}  // namespace fathom
