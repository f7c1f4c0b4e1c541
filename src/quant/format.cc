#include "quant/format.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "quant/fp8_block.h"

namespace fathom {
namespace {

class F32 final : public Format {
 public:
  constexpr F32() : Format({.name = "f32", .element = DType::f32, .bits = 32}) {}
  void quantize(const float* w, i64 out, i64 in, void* data, void*, void*) const override {
    std::copy_n(w, out * in, static_cast<float*>(data));
  }
  void dequantize(const void* data, const void*, const void*, i64 out, i64 in, float* y) const override {
    std::copy_n(static_cast<const float*>(data), out * in, y);
  }
};

class Bf16 final : public Format {
 public:
  constexpr Bf16() : Format({.name = "bf16", .element = DType::bf16, .bits = 16}) {}
  void quantize(const float* w, i64 out, i64 in, void* data, void*, void*) const override {
    std::transform(w, w + out * in, static_cast<bf16_bits*>(data), float_to_bf16);
  }
  void dequantize(const void* data, const void*, const void*, i64 out, i64 in, float* y) const override {
    const auto* bits = static_cast<const bf16_bits*>(data);
    std::transform(bits, bits + out * in, y, bf16_to_float);
  }
};

// E4M3 codes with a float32 scale for each 128 x 128 numbers: value = code * scale.
class Fp8Block final : public Format {
 public:
  constexpr Fp8Block(std::string_view name, bool power_of_two)
      : Format({.name = name,
                .element = DType::e4m3,
                .bits = 8,
                .group_rows = kFp8Block,
                .group_cols = kFp8Block,
                .activation_group = kFp8Block,
                .power_of_two = power_of_two}) {}
  void quantize(const float* w, i64 out, i64 in, void* data, void* scale, void*) const override {
    quantize_weight(w, out, in, power_of_two(), static_cast<e4m3_bits*>(data), static_cast<float*>(scale));
  }
  void dequantize(const void* data, const void* scale, const void*, i64 out, i64 in, float* y) const override {
    dequantize_weight(static_cast<const e4m3_bits*>(data), static_cast<const float*>(scale), out, in, y);
  }
};

constinit const F32 f32;
constinit const Bf16 bf16;
constinit const Fp8Block fp8{"fp8_block128", false}, fp8_ue8m0{"fp8_block128_ue8m0", true};

}  // namespace

constinit const Format &kF32 = f32, &kBf16 = bf16, &kFp8Block128 = fp8, &kFp8Block128Ue8m0 = fp8_ue8m0;

std::span<const Format* const> all_formats() {
  static constexpr std::array<const Format*, 4> kAll = {&f32, &bf16, &fp8, &fp8_ue8m0};
  return kAll;
}

const Format* find_format(DType element, bool scaled, const Format& configured) {
  const auto fits = [&](const Format* f) { return f->element() == element && (scaled || !f->has_scale()); };
  if (fits(&configured)) return &configured;
  const auto found = std::ranges::find_if(all_formats(), fits);
  return found == all_formats().end() ? nullptr : *found;
}

Shape Format::data_shape(i64 out, i64 in) const {
  const i64 element_bits = 8 * size_of(element());
  CHECK(in * bits() % element_bits == 0, "format {}: a row of {} numbers of {} bits does not fill whole bytes", name(),
        in, bits());
  return {out, in * bits() / element_bits};
}

Shape Format::scale_shape(i64 out, i64 in) const {
  return {(out + group_rows() - 1) / group_rows(), (in + group_cols() - 1) / group_cols()};
}

i64 Format::unit(int dim) const {
  if (dim == 0) return std::max<i64>(1, group_rows());
  const i64 whole = std::lcm(bits(), 8 * size_of(element())) / bits();  // numbers that fill whole elements
  return has_scale() ? std::lcm(whole, group_cols()) : whole;
}

}  // namespace fathom
