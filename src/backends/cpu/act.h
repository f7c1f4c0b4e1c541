// Access to activations (float32 or bf16) as typed pointers, and rows of them as float32.
#pragma once

#include "kernels/cpu/kernels.h"
#include "tensor/tensor.h"

namespace fathom {

// Calls f with the tensor's pointer as float* or bf16_bits*.
template <typename F>
decltype(auto) visit_act(const Tensor& x, F&& f) {
  if (x.dtype() == DType::f32) return f(static_cast<float*>(x.data()));
  CHECK(x.dtype() == DType::bf16, "activations are f32 or bf16, not {}", name_of(x.dtype()));
  return f(static_cast<bf16_bits*>(x.data()));
}

inline float widen(float value) { return value; }
inline float widen(bf16_bits value) { return bf16_to_float(value); }
inline void store(float& place, float value) { place = value; }
inline void store(bf16_bits& place, float value) { place = float_to_bf16(value); }

// The kernels' name of an element type.
inline Element element_of(DType dtype) {
  if (dtype == DType::f32) return Element::f32;
  if (dtype == DType::bf16) return Element::bf16;
  CHECK(dtype == DType::e4m3, "no CPU kernel takes numbers of type {}", name_of(dtype));
  return Element::e4m3;
}

// A tensor as rows of its last dimension: all leading dimensions are one (or are contiguous).
struct Rows {
  explicit Rows(const Tensor& x)
      : data(static_cast<std::byte*>(x.data())),
        count(x.rank() == 2 ? x.dim(0) : (x.dim(x.rank() - 1) == 0 ? 0 : x.numel() / x.dim(x.rank() - 1))),
        width(x.dim(x.rank() - 1)),
        step((x.rank() == 2 ? x.stride(0) : width) * size_of(x.dtype())),
        dtype(x.dtype()) {}

  void* row(i64 i) const { return data + i * step; }

  std::byte* data;
  i64 count, width;
  i64 step;  // bytes from one row to the next
  DType dtype;
};

}  // namespace fathom
