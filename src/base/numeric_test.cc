// The narrow formats against arithmetic in double precision, exhaustively where the domain is small.
#include "base/numeric.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace fathom {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
std::uint32_t to_bits(float value) { return std::bit_cast<std::uint32_t>(value); }

double e4m3_by_arithmetic(int code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(1 + mantissa / 8.0, exponent - 7);
  return code & 0x80 ? -magnitude : magnitude;
}

// The nearest of the codes 0 .. 0x7e by search; the even one of two at the same distance; saturating.
int nearest_e4m3(double magnitude) {
  int best = 0;
  for (int code = 1; code <= 0x7e; ++code) {
    const double old = std::fabs(magnitude - e4m3_by_arithmetic(best));
    const double distance = std::fabs(magnitude - e4m3_by_arithmetic(code));
    if (distance < old || (distance == old && code % 2 == 0)) best = code;
  }
  return best;
}

TEST(E4m3, EveryCode) {
  for (int code = 0; code < 256; ++code) {
    const float value = e4m3_to_float(static_cast<e4m3_bits>(code));
    if ((code & 0x7f) == 0x7f) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_EQ(float_to_e4m3(value) & 0x7f, 0x7f);
    } else {
      EXPECT_EQ(static_cast<double>(value), e4m3_by_arithmetic(code));
      EXPECT_EQ(std::signbit(value), code >= 0x80);
      EXPECT_EQ(float_to_e4m3(value), code);
    }
  }
}

TEST(E4m3, MidpointsAndTheirNeighbours) {
  for (int code = 0; code < 0x7e; ++code) {
    const auto middle = static_cast<float>((e4m3_by_arithmetic(code) + e4m3_by_arithmetic(code + 1)) / 2);
    EXPECT_EQ(float_to_e4m3(middle), code % 2 == 0 ? code : code + 1);
    EXPECT_EQ(float_to_e4m3(std::nextafter(middle, 0.0f)), code);
    EXPECT_EQ(float_to_e4m3(std::nextafter(middle, kInf)), code + 1);
    EXPECT_EQ(float_to_e4m3(-middle), (code % 2 == 0 ? code : code + 1) | 0x80);
  }
}

TEST(E4m3, SaturatesAndKeepsNan) {
  for (const float value : {448.0f, 455.0f, 463.99f, 464.0f, 465.0f, 479.0f, 480.0f, 1e30f, kInf}) {
    EXPECT_EQ(float_to_e4m3(value), 0x7e) << value;
    EXPECT_EQ(float_to_e4m3(-value), 0xfe) << value;
  }
  EXPECT_EQ(float_to_e4m3(kNan), 0x7f);
  EXPECT_EQ(float_to_e4m3(-0.0f), 0x80);
  EXPECT_EQ(float_to_e4m3(from_bits(1)), 0);
}

TEST(E4m3, RandomValuesGoToTheNearest) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> exponent(-14, 10);
  for (int i = 0; i < 50'000; ++i) {
    const auto value = static_cast<float>(std::exp2(exponent(random)));
    ASSERT_EQ(float_to_e4m3(value), nearest_e4m3(static_cast<double>(value))) << value;
  }
}

TEST(Bf16, EveryCodeGoesThereAndBack) {
  for (std::uint32_t code = 0; code < 0x10000; ++code) {
    const float value = bf16_to_float(static_cast<bf16_bits>(code));
    EXPECT_EQ(to_bits(value), code << 16);
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(value))));
    else
      EXPECT_EQ(float_to_bf16(value), code);
  }
}

TEST(Bf16, MidpointsGoToTheEvenNeighbour) {
  for (std::uint32_t code = 0; code < 0x7f80; ++code) {  // above the largest finite value: infinity
    const std::uint32_t middle = code << 16 | 0x8000;
    EXPECT_EQ(float_to_bf16(from_bits(middle)), code % 2 == 0 ? code : code + 1);
    EXPECT_EQ(float_to_bf16(from_bits(middle - 1)), code);
    EXPECT_EQ(float_to_bf16(from_bits(middle + 1)), code + 1);
    EXPECT_EQ(float_to_bf16(from_bits(middle | 0x80000000u)), (code % 2 == 0 ? code : code + 1) | 0x8000);
  }
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(from_bits(0x7f800001)))));  // NaN with low bits only
  EXPECT_EQ(float_to_bf16(kInf), 0x7f80);
}

TEST(E8m0, EveryCode) {
  for (int code = 0; code < 255; ++code)
    EXPECT_EQ(static_cast<double>(e8m0_to_float(static_cast<e8m0_bits>(code))), std::ldexp(1.0, code - 127));
  EXPECT_TRUE(std::isnan(e8m0_to_float(255)));
}

TEST(RoundUpToPowerOfTwo, ExactPowersStayAndOneUlpMoreDoubles) {
  for (int exponent = -126; exponent <= 126; ++exponent) {
    const float power = std::ldexp(1.0f, exponent);
    EXPECT_EQ(round_up_to_power_of_two(power), power);
    EXPECT_EQ(round_up_to_power_of_two(std::nextafter(power, kInf)), 2 * power);
    EXPECT_EQ(round_up_to_power_of_two(std::nextafter(2 * power, 0.0f)), 2 * power);
  }
}

}  // namespace
}  // namespace fathom
