// Weight: a matrix, or a stack of equal matrices, in one of the formats: data and scales together.
#pragma once

#include "quant/format.h"

namespace fathom {

struct Weight {
  Tensor data;   // [out, in], or [n, out, in] for a stack
  Tensor scale;  // float32 [ceil(out / block), ceil(in / block)], or [n, ...]; undefined without scales
  const Format* format = &kBf16;

  i64 out() const { return data.dim(data.rank() - 2); }
  i64 in() const { return data.dim(data.rank() - 1); }

  // Matrix i of a stack.
  Weight operator[](i64 i) const { return {data[i], scale.defined() ? scale[i] : Tensor{}, format}; }
};

}  // namespace fathom
