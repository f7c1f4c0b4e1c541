#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace fathom {
namespace {

// Four pairs. Over a context of L tokens the (fractional) pair that turns r times is c(r) = 8 ln(L / 2 pi r) / 2
// ln(theta).
ModelArgs eight_dimensions(double theta, i64 context, i64 beta_fast, i64 beta_slow) {
  ModelArgs args;
  args.max_seq_len = 6;
  args.qk_rope_head_dim = 8;
  args.original_seq_len = context;
  args.rope_theta = theta;
  args.rope_factor = 4;
  args.rope_mscale = 1;
  args.beta_fast = beta_fast;
  args.beta_slow = beta_slow;
  args.yarn = true;
  return args;
}

// Each position turns pair i by position * freqs[i].
void expect_turns(const ModelArgs& args, const std::vector<double>& freqs, double scale = 1) {
  const std::vector<float> table = precompute_freqs_cis(args);
  ASSERT_EQ(table.size(), static_cast<std::size_t>(args.max_seq_len) * freqs.size() * 2);
  for (std::size_t position = 0; position < static_cast<std::size_t>(args.max_seq_len); ++position)
    for (std::size_t i = 0; i < freqs.size(); ++i) {
      const double angle = static_cast<double>(position) * freqs[i];
      const std::size_t at = (position * freqs.size() + i) * 2;
      EXPECT_NEAR(table[at], std::cos(angle) * scale, 2e-6) << "cos, position " << position << ", pair " << i;
      EXPECT_NEAR(table[at + 1], std::sin(angle) * scale, 2e-6) << "sin, position " << position << ", pair " << i;
    }
}

TEST(Rope, WithoutYarnFrequenciesFallGeometrically) {
  ModelArgs args = eight_dimensions(10'000, 4096, 32, 1);
  args.yarn = false;
  expect_turns(args, {1, 0.1, 0.01, 0.001});
}

TEST(Rope, TheScaleIsOnEveryEntry) {
  ModelArgs args = eight_dimensions(10'000, 4096, 32, 1);
  args.yarn = false;
  args.rope_mscale = 0.5;
  expect_turns(args, {1, 0.1, 0.01, 0.001}, 0.5);
}

// theta 100, L 4096: c(32) = 2.62 and c(1) = 5.63, so the ramp goes from 2 to 6, beyond the last pair (3): 0, 0, 0,
// 1/4.
TEST(Rope, TheRampMayEndBehindTheLastPair) {
  const double last = std::pow(100.0, -0.75);
  expect_turns(eight_dimensions(100, 4096, 32, 1), {1, std::pow(100.0, -0.25), 0.1, last / 4 * 0.25 + last * 0.75});
}

// theta 10, L 4096: c(512) = 0.42 and c(1) = 11.3, but the ramp ends at dim - 1 = 7: 0, 1/7, 2/7, 3/7.
TEST(Rope, TheRampEndsAtTheDimensionLessOne) {
  std::vector<double> freqs;
  for (int i = 0; i < 4; ++i) freqs.push_back(std::pow(10.0, -i / 4.0) * (1 - i / 7.0 * 0.75));
  expect_turns(eight_dimensions(10, 4096, 512, 1), freqs);
}

// theta 100, L 64: c(11) = -0.07 for both ends, so the ramp goes from 0 to 0: a step behind pair 0, and no 0 / 0 there.
TEST(Rope, ARampWithoutLengthIsAStep) {
  expect_turns(eight_dimensions(100, 64, 11, 11), {1, std::pow(100.0, -0.25) / 4, 0.1 / 4, std::pow(100.0, -0.75) / 4});
}

}  // namespace
}  // namespace fathom
