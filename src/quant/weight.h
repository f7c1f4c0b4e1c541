// Weight: a matrix, or a stack of equal matrices, in one of the formats: data, scales and zero points together.
#pragma once

#include "quant/format.h"

namespace fathom {

struct Weight {
  Tensor data;   // format->data_shape(out, in): [out, in] where a number is an element; [n, ...] for a stack
  Tensor scale;  // format->scale_shape(out, in), or [n, ...]; undefined without scales
  const Format* format = &kBf16;
  // A stack whose matrices do not follow each other in memory: its [n] matrices, while the tensors here only tell the
  // shapes. Backends that want stacks in one piece never see one.
  const Weight* apart = nullptr;
  Tensor zero = {};    // as scale; undefined without zero points
  Shape numbers = {};  // [out, in] or [n, out, in] where `data` has another shape

  const Shape& shape() const { return numbers.rank() > 0 ? numbers : data.shape(); }
  i64 out() const { return shape()[shape().rank() - 2]; }
  i64 in() const { return shape()[shape().rank() - 1]; }

  // Calls f with each tensor, those that it has not too.
  template <typename F>
  void each(F&& f) {
    f(data), f(scale), f(zero);
  }
  // Matrix i of a stack.
  Weight operator[](i64 i) const;
  // Rows [first, first + n) of a matrix, `first` being a multiple of format->unit(0).
  Weight rows(i64 first, i64 n) const;
  // float32 [out, in] of a matrix in host memory.
  void dequantize(float* y) const;
};

}  // namespace fathom
