// Weight: a matrix, or a stack of equal matrices, in one of the formats: data and scales together.
#pragma once

#include "quant/format.h"

namespace fathom {

struct Weight {
  Tensor data;   // [out, in], or [n, out, in] for a stack
  Tensor scale;  // float32 [ceil(out / block), ceil(in / block)], or [n, ...]; undefined without scales
  const Format* format = &kBf16;
  // A stack whose matrices do not follow each other in memory: its [n] matrices, while `data` and `scale` only tell the
  // shapes. Backends that want stacks in one piece never see one.
  const Weight* apart = nullptr;

  i64 out() const { return data.dim(data.rank() - 2); }
  i64 in() const { return data.dim(data.rank() - 1); }

  // Matrix i of a stack.
  Weight operator[](i64 i) const {
    return apart != nullptr ? apart[i] : Weight{data[i], scale.defined() ? scale[i] : Tensor{}, format};
  }
};

}  // namespace fathom
