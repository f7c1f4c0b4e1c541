#include "quant/format.h"

#include <array>

namespace fathom {

const Format kF32{"f32", DType::f32, 0, false};
const Format kBf16{"bf16", DType::bf16, 0, false};
const Format kFp8Block128{"fp8_block128", DType::e4m3, 128, false};
const Format kFp8Block128Ue8m0{"fp8_block128_ue8m0", DType::e4m3, 128, true};

std::span<const Format* const> all_formats() {
  static constexpr std::array<const Format*, 4> kAll = {&kF32, &kBf16, &kFp8Block128, &kFp8Block128Ue8m0};
  return kAll;
}

}  // namespace fathom
