#include "tools/bench_engine.h"

#include <gtest/gtest.h>

namespace fathom {
namespace {

TEST(DecodeSpeed, CountsOnlyStepsInWhichAllDecode) {
  // The first request draws 100 tokens while the prompt of the second is read, and ends 10 before it.
  std::vector<EngineStep> steps(100, {.seconds = 0.5, .tokens = 1});
  for (int i = 0; i < 20; ++i) steps.push_back({.seconds = 0.25, .tokens = 2, .all = true});
  for (int i = 0; i < 10; ++i) steps.push_back({.seconds = 0.125, .tokens = 1});
  const DecodeSpeed speed = decode_speed(steps, 2);
  EXPECT_DOUBLE_EQ(speed.seconds_per_step, 0.25);
  EXPECT_DOUBLE_EQ(speed.tokens_per_second, 8);
}

TEST(DecodeSpeed, SeveralPassesOfOneStep) {
  const EngineStep eight{.seconds = 2, .tokens = 32, .all = true};  // eight passes of four sequences
  EXPECT_DOUBLE_EQ(decode_speed(std::vector(3, eight), 4).seconds_per_step, 0.25);
  EXPECT_EQ(decode_speed({}, 4).seconds_per_step, 0);
}

}  // namespace
}  // namespace fathom
