// Bytes with a float32 scale for each 64 numbers of a row: value = (code - 128) * scale.
#pragma once

#include "quant/format.h"

namespace fathom {

class ByteRows final : public Format {
 public:
  constexpr ByteRows()
      : Format({.name = "byte_rows", .element = DType::u8, .bits = 8, .group_rows = 1, .group_cols = 64}) {}
  void quantize(const float* w, i64 out, i64 in, void* data, void* scale, void* zero) const override;
  void dequantize(const void* data, const void* scale, const void* zero, i64 out, i64 in, float* y) const override;
};

extern const ByteRows kByteRows;

}  // namespace fathom
