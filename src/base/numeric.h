// Number formats narrower than float32: bf16, e4m3 (finite, no infinities) and e8m0 (powers of two).
// Rounding is to nearest, ties to even. Plain integer code, so host and device agree bit for bit.
// Stands in base because kernels (which see no Tensor) and tensors both need it.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace fathom {

using bf16_bits = std::uint16_t;
using e4m3_bits = std::uint8_t;
using e8m0_bits = std::uint8_t;

inline constexpr float kE4m3Max = 448.0f;

constexpr float bf16_to_float(bf16_bits bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

constexpr bf16_bits float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<bf16_bits>(bits >> 16 | 0x0040u);  // keep NaN quiet
  return static_cast<bf16_bits>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// e4m3fn: sign, 4 exponent bits (bias 7), 3 mantissa bits; 0x7f and 0xff are NaN, the largest value is 448.
constexpr float e4m3_to_float(e4m3_bits code) {
  const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x80u) << 24;
  const std::uint32_t exponent = code >> 3 & 0xfu, mantissa = code & 7u;
  if (exponent == 0xf && mantissa == 7) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-9f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 120u) << 23 | mantissa << 20);
}

// Nearest-even, saturating at +-448 (also for infinities); NaN stays NaN.
constexpr e4m3_bits float_to_e4m3(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<e4m3_bits>(bits >> 24 & 0x80u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<e4m3_bits>(sign | 0x7fu);
  if (magnitude >= std::bit_cast<std::uint32_t>(464.0f))  // 464 is the midpoint above 448; everything there saturates
    return static_cast<e4m3_bits>(sign | 0x7eu);
  if (magnitude < std::bit_cast<std::uint32_t>(0x1p-6f)) {  // subnormal: adding 2^14 rounds to multiples of 2^-9
    const float shifted = std::bit_cast<float>(magnitude) + 0x1p14f;
    return static_cast<e4m3_bits>(sign |
                                  (std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0x1p14f)));
  }
  const std::uint32_t rounded = magnitude + 0x7ffffu + (magnitude >> 20 & 1u);
  const std::uint32_t code = (rounded >> 20) - (120u << 3);
  return static_cast<e4m3_bits>(sign | (code > 0x7eu ? 0x7eu : code));
}

// e8m0: 2^(code - 127); 255 is NaN.
constexpr float e8m0_to_float(e8m0_bits code) {
  if (code == 0xff) return std::numeric_limits<float>::quiet_NaN();
  if (code == 0) return 0x1p-127f;
  return std::bit_cast<float>(static_cast<std::uint32_t>(code) << 23);
}

// The smallest power of two that is not below a positive normal `value`, found on the bits: log2 would round exact
// powers wrongly.
constexpr float round_up_to_power_of_two(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7fffffu) & 0xff800000u);
}

}  // namespace fathom
