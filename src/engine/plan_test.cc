#include "engine/plan.h"

#include <gtest/gtest.h>

namespace fathom {
namespace {

TEST(StepPlan, BytesAndBack) {
  StepPlan plan = single_sequence_plan(std::vector<TokenId>{5, 6, 7}, 14, 16, true);
  plan.seen = {1, 2, 3};
  plan.seen_starts = {0, 3};
  plan.steps = 5;
  EXPECT_EQ(plan_from_bytes(to_bytes(plan)), plan);
  EXPECT_EQ(plan_from_bytes(to_bytes(StepPlan{})), StepPlan{});
}

TEST(StepPlan, DamagedBytesAreRefused) {
  const auto bytes = to_bytes(single_sequence_plan(std::vector<TokenId>{5, 6, 7}, 14, 16, true));
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(plan_from_bytes(std::span(bytes).first(size)), Error) << size;
  auto longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_THROW(plan_from_bytes(longer), Error);
  auto huge = bytes;
  for (std::size_t i = 0; i < 8; ++i) huge[i] = std::byte{0xff};
  EXPECT_THROW(plan_from_bytes(huge), Error);
}

TEST(StepPlan, SeenTokensGoWithAPenaltyOnly) {
  StepPlan plan;
  const std::vector<TokenId> ids{5, 6};
  const std::vector<std::int32_t> table{3};
  for (const float penalty : {0.5f, 1.0f, 2.0f}) {
    plan.add_sequence(ids, 0, table, 4);
    plan.add_row({{.repetition_penalty = penalty}}, -1, ids);
  }
  EXPECT_EQ(plan.seen_starts, (std::vector<std::int32_t>{0, 2, 2, 4}));
  EXPECT_EQ(plan.seen, (std::vector<TokenId>{5, 6, 5, 6}));
  EXPECT_EQ(plan.logit_rows, (std::vector<std::int32_t>{1, 3, 5}));
  EXPECT_EQ(plan.slots, (std::vector<std::int32_t>{12, 13, 12, 13, 12, 13}));
}

TEST(StepPlan, SingleSequence) {
  const StepPlan plan = single_sequence_plan(std::vector<TokenId>{5, 6, 7}, 14, 16, true);
  EXPECT_EQ(plan.positions, (std::vector<std::int32_t>{14, 15, 16}));
  EXPECT_EQ(plan.slots, plan.positions);
  EXPECT_EQ(plan.blocks, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(plan.context_lens, (std::vector<std::int32_t>{17}));
  EXPECT_EQ(plan.logit_rows, (std::vector<std::int32_t>{2}));
  EXPECT_EQ(single_sequence_plan(std::vector<TokenId>{5}, 0, 16, false).rows(), 0);
}

}  // namespace
}  // namespace fathom
