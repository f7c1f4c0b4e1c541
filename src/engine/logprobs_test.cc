#include "engine/logprobs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace fathom {
namespace {

TEST(Logprobs, FollowTheDefinition) {
  const std::vector<float> logits{std::log(1.0f), std::log(2.0f), std::log(5.0f), std::log(2.0f)};
  EXPECT_NEAR(logprob_of(logits, 2), std::log(0.5), 1e-6);
  EXPECT_NEAR(logprob_of(logits, 0), std::log(0.1), 1e-6);
  const auto top = top_logprobs(logits, 3);
  ASSERT_EQ(top.size(), 3u);
  EXPECT_EQ(top[0].token, 2);
  EXPECT_EQ(top[1].token, 1);  // of equals the smaller id
  EXPECT_EQ(top[2].token, 3);
  EXPECT_NEAR(top[1].logprob, std::log(0.2), 1e-6);
  EXPECT_EQ(top_logprobs(logits, 99).size(), 4u);
  EXPECT_TRUE(top_logprobs(logits, 0).empty());
  EXPECT_THROW(logprob_of(logits, 4), Error);
  EXPECT_THROW(logprob_of(logits, -1), Error);
}

TEST(Logprobs, LargeLogitsDoNotOverflow) {
  EXPECT_NEAR(logprob_of(std::vector<float>{1e5f, 1e5f}, 0), std::log(0.5), 1e-6);
  EXPECT_EQ(logprob_of(std::vector<float>{3e38f, -3e38f}, 0), 0.0f);
}

}  // namespace
}  // namespace fathom
