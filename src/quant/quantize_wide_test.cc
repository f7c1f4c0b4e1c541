#include "quant/fp8_block.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace fathom {
namespace {

// The plain meaning, value by value.
void expect_plain(const std::vector<float>& w, i64 rows, i64 cols, bool power_of_two) {
  std::vector<e4m3_bits> codes(w.size());
  std::vector<float> scales(static_cast<std::size_t>(blocks_of(rows) * blocks_of(cols)));
  quantize_weight(w.data(), rows, cols, power_of_two, codes.data(), scales.data());
  for (i64 r = 0; r < rows; ++r)
    for (i64 c = 0; c < cols; ++c) {
      const auto at = static_cast<std::size_t>(r * cols + c);
      const float scale = scales[static_cast<std::size_t>(r / kFp8Block * blocks_of(cols) + c / kFp8Block)];
      ASSERT_EQ(codes[at], float_to_e4m3(w[at] / scale)) << r << " " << c << " " << w[at] << " " << scale;
    }
}

TEST(Fp8Block, WideBlocksEqualTheScalarConversion) {
  for (const i64 cols : {128, 300})
    for (const bool power_of_two : {false, true}) {
      const i64 rows = 256;
      std::vector<float> w(static_cast<std::size_t>(rows * cols));
      // Every e4m3 value, the midpoints between them and their neighbours, over many magnitudes below the largest.
      for (std::size_t i = 0; i < w.size(); ++i) {
        const float base = e4m3_to_float(static_cast<e4m3_bits>(i % 127));
        const float next = e4m3_to_float(static_cast<e4m3_bits>(i % 127 + (i % 127 < 126)));
        const float value = i % 3 == 0   ? base
                            : i % 3 == 1 ? (base + next) / 2
                                         : std::nextafter((base + next) / 2, 0.0f);
        w[i] = (i / 127 % 2 == 0 ? value : -value) * 0.25f;
      }
      expect_plain(w, rows, cols, power_of_two);
    }
}

TEST(Fp8Block, SpecialValues) {
  std::vector<float> w(128 * 128, 0.0f);
  expect_plain(w, 128, 128, true);
  w[5] = std::numeric_limits<float>::infinity();
  w[7] = 3.0f;
  expect_plain(w, 128, 128, false);  // infinity alone: its code is NaN, not the largest number
  w[6] = std::numeric_limits<float>::quiet_NaN();
  w[7] = 3.0f;
  expect_plain(w, 128, 128, false);
  w[5] = w[6] = std::numeric_limits<float>::denorm_min();
  w[8] = std::numeric_limits<float>::max();
  expect_plain(w, 128, 128, false);
  EXPECT_EQ(weight_scale(0, true), 1.0f);
  EXPECT_EQ(weight_scale(448, true), 1.0f);
  EXPECT_EQ(weight_scale(std::nextafter(448.0f, 500.0f), true), 2.0f);
}

}  // namespace
}  // namespace fathom
