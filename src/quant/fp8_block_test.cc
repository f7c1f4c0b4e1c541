// FP8 in blocks against the reference's own outputs (golden kernels.safetensors) and against arithmetic.
#include "quant/fp8_block.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "quant/e4m3_table.h"
#include "support/safetensors.h"

namespace fathom {
namespace {

std::size_t at(i64 i) { return static_cast<std::size_t>(i); }

class Golden : public testing::Test {
 protected:
  test::Safetensors file_{test::data_folder() / "golden/golden/kernels.safetensors"};
};

TEST_F(Golden, ActivationsAreBitEqual) {
  const Tensor x = file_["act.x"];
  const i64 rows = x.dim(0), width = x.dim(1);
  for (const bool power_of_two : {false, true}) {
    const std::string kind = power_of_two ? "ue8m0" : "f32";
    const auto* want_codes = file_["act.q." + kind].as<std::uint8_t>();
    const auto* want_scales = file_["act.s." + kind].as<float>();
    std::vector<float> row(at(width)), scales(at(width / 128));
    std::vector<e4m3_bits> codes(at(width));
    for (i64 r = 0; r < rows; ++r) {
      for (i64 i = 0; i < width; ++i) row[at(i)] = bf16_to_float(x.as<bf16_bits>()[r * width + i]);
      quantize_activation(row.data(), width, power_of_two, codes.data(), scales.data());
      for (i64 i = 0; i < width; ++i)
        ASSERT_EQ(int{codes[at(i)]}, int{want_codes[r * width + i]}) << kind << " row " << r << " column " << i;
      for (i64 i = 0; i < width / 128; ++i) ASSERT_EQ(scales[at(i)], want_scales[r * (width / 128) + i]) << kind;
    }
  }
}

TEST_F(Golden, WeightsAreBitEqual) {
  const Tensor codes = file_["deq.w"], want = file_["deq.y"];
  const i64 rows = codes.dim(0), cols = codes.dim(1);
  std::vector<bf16_bits> y(at(rows * cols));
  std::vector<float> wide(at(rows * cols));
  dequantize_weight(codes.as<std::uint8_t>(), file_["deq.s"].as<float>(), rows, cols, y.data());
  dequantize_weight(codes.as<std::uint8_t>(), file_["deq.s"].as<float>(), rows, cols, wide.data());
  for (i64 i = 0; i < rows * cols; ++i) {
    ASSERT_EQ(y[at(i)], want.as<bf16_bits>()[i]) << i;
    ASSERT_EQ(float_to_bf16(wide[at(i)]), y[at(i)]);
  }
}

// Each code with scales of every kind, in full and in cut blocks, beside the plain conversions.
TEST(DequantizeWeight, EveryCodeWithOddScales) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const i64 rows = 3, cols = 128 * 10 + 77;
  const std::vector<float> scales = {1.0f, 0.0123f, 3e38f, 1e-40f, 0.0f, -2.5f, -1e-3f, inf, -nan, nan, 7e-5f};
  ASSERT_EQ(static_cast<i64>(scales.size()), blocks_of(cols));
  std::vector<e4m3_bits> codes(at(rows * cols));
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<e4m3_bits>(i * 7 + i / 128);
  std::vector<bf16_bits> y(codes.size());
  dequantize_weight(codes.data(), scales.data(), rows, cols, y.data());
  for (i64 r = 0; r < rows; ++r)
    for (i64 c = 0; c < cols; ++c) {
      const bf16_bits want = float_to_bf16(e4m3_to_float(codes[at(r * cols + c)]) * scales[at(c / 128)]);
      if (std::isnan(bf16_to_float(want)))
        ASSERT_TRUE(std::isnan(bf16_to_float(y[at(r * cols + c)])));
      else
        ASSERT_EQ(y[at(r * cols + c)], want) << int{codes[at(r * cols + c)]} << " * " << scales[at(c / 128)];
    }
}

TEST(QuantizeWeight, EdgeBlocksHaveTheirOwnScales) {
  const i64 rows = 130, cols = 257;
  std::vector<float> w(at(rows * cols)), back(w.size());
  for (i64 r = 0; r < rows; ++r)
    for (i64 c = 0; c < cols; ++c)
      w[at(r * cols + c)] = static_cast<float>((r * 31 + c * 17) % 97 - 48) * (r < 128 ? 1 : 1000);
  for (const bool power_of_two : {false, true}) {
    std::vector<e4m3_bits> codes(w.size());
    std::vector<float> scales(at(blocks_of(rows) * blocks_of(cols)));
    ASSERT_EQ(scales.size(), 6u);
    quantize_weight(w.data(), rows, cols, power_of_two, codes.data(), scales.data());
    dequantize_weight(codes.data(), scales.data(), rows, cols, back.data());
    for (i64 r = 0; r < rows; ++r)
      for (i64 c = 0; c < cols; ++c) {
        const float scale = scales[at(r / 128 * 3 + c / 128)], value = w[at(r * cols + c)];
        // Half a unit in the last place of e4m3 (2^-4 relative), or of its subnormals.
        ASSERT_LE(std::fabs(back[at(r * cols + c)] - value), std::max(std::fabs(value) / 16, scale / 1024) * 1.0001f);
      }
    for (const float scale : scales) {
      int exponent;
      if (power_of_two) {
        EXPECT_EQ(std::frexp(scale, &exponent), 0.5f);
      }
    }
  }
}

TEST(QuantizeWeight, ZeroBlocksGetScaleOne) {
  const std::vector<float> w(128 * 128, 0.0f);
  std::vector<e4m3_bits> codes(w.size(), 9);
  for (const bool power_of_two : {false, true}) {
    float scale = 0;
    quantize_weight(w.data(), 128, 128, power_of_two, codes.data(), &scale);
    EXPECT_EQ(scale, 1.0f);
    EXPECT_EQ(codes, std::vector<e4m3_bits>(w.size(), 0));
  }
}

TEST(QuantizeWeight, ScalesOfDenormalBlocksStayUsable) {
  std::vector<float> w(128 * 128, 0.0f), back(w.size());
  w[5] = 1e-44f;  // far below the smallest scale's smallest code
  w[6] = 3e-40f;  // 0.0255 of the smallest scale: 1.625 * 2^-6 in e4m3
  std::vector<e4m3_bits> codes(w.size());
  for (const bool power_of_two : {false, true}) {
    float scale = 0;
    quantize_weight(w.data(), 128, 128, power_of_two, codes.data(), &scale);
    dequantize_weight(codes.data(), &scale, 128, 128, back.data());
    EXPECT_EQ(scale, std::numeric_limits<float>::min());
    EXPECT_EQ(back[5], 0.0f);
    EXPECT_EQ(back[6], std::numeric_limits<float>::min() * 0x1.ap-6f);
  }
}

// 448 * 2^e is the largest activation with scale 2^e (up to the rounding of float32(1 / 448)).
TEST(QuantizeActivation, PowerOfTwoScalesAreRoundedUpOnTheBits) {
  std::vector<float> x(128, 0.0f);
  std::vector<e4m3_bits> codes(128);
  for (int exponent = -10; exponent <= 20; ++exponent) {
    float scale = 0;
    const float power = std::ldexp(1.0f, exponent);
    for (float amax = 448 * power;; amax = std::nextafter(amax, std::numeric_limits<float>::infinity())) {
      x[7] = -amax;
      quantize_activation(x.data(), 128, true, codes.data(), &scale);
      const float plain = amax * (1.0f / 448.0f);
      EXPECT_EQ(scale, plain <= power ? power : 2 * power);
      EXPECT_EQ(float_to_e4m3(-amax / scale), codes[7]);
      if (plain > power) break;
    }
  }
}

TEST(QuantizeActivation, SmallValuesUseTheFloor) {
  std::vector<float> x(128, 1e-6f);
  std::vector<e4m3_bits> codes(128);
  float scale = 0;
  quantize_activation(x.data(), 128, false, codes.data(), &scale);
  EXPECT_EQ(scale, 1e-4f * (1.0f / 448.0f));
  EXPECT_EQ(codes[0], float_to_e4m3(1e-6f / scale));
}

TEST(QuantizeActivation, RefusesWidthsThatAreNoMultiples) {
  std::vector<float> x(130), scales(2);
  std::vector<e4m3_bits> codes(130);
  EXPECT_THROW(quantize_activation(x.data(), 130, false, codes.data(), scales.data()), Error);
  EXPECT_NO_THROW(quantize_activation(x.data(), 0, false, codes.data(), scales.data()));
}

// Every code at places before, in and behind what vector instructions take at once.
TEST(FirstNan, FindsTheTwoCodesThatAreNoNumber) {
  std::vector<e4m3_bits> codes(10000, 0x7e);
  EXPECT_EQ(first_nan(codes.data(), 0), -1);
  for (const std::size_t place : {0, 1, 63, 4095, 4096, 9999}) {
    for (int code = 0; code < 256; ++code) {
      codes[place] = static_cast<e4m3_bits>(code);
      const bool nan = std::isnan(e4m3_to_float(codes[place]));
      EXPECT_EQ(first_nan(codes.data(), 10000), nan ? static_cast<i64>(place) : -1) << place << " " << code;
    }
    codes[place] = 0xfe;
  }
  codes[17] = 0xff, codes[16] = 0x7f;
  EXPECT_EQ(first_nan(codes.data(), 10000), 16);
  EXPECT_EQ(first_nan(codes.data(), 16), -1);
}

}  // namespace
}  // namespace fathom
