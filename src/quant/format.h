// The number formats of weights: one row each, in one table.
#pragma once

#include <span>
#include <string_view>

#include "tensor/tensor.h"

namespace fathom {

// Traits of a weight format. A block format stores one float32 scale for each block x block square of the matrix
// (edge blocks are cut, not padded): value = code * scale.
struct Format {
  std::string_view name;
  DType element;
  i64 block;          // edge of a square that shares one scale; 0: no scales
  bool power_of_two;  // scales of weights and of quantised activations are powers of two (UE8M0)

  bool has_scale() const { return block > 0; }
};

extern const Format kF32, kBf16, kFp8Block128, kFp8Block128Ue8m0;

// All formats, for messages and look-ups by name.
std::span<const Format* const> all_formats();

}  // namespace fathom
