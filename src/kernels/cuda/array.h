// Arrays and matrices on the device as the kernels see them: pointers, types, sizes and strides.
#pragma once

#include <cstdint>

namespace fathom::cuda {

using i64 = std::int64_t;

enum class Type : std::uint8_t { f32, bf16, e4m3, i32, other };

// A view of numbers on the device; strides in elements, the last dimension contiguous.
struct Array {
  void* data = nullptr;
  Type type = Type::f32;
  int rank = 0;
  i64 dim[4] = {};
  i64 stride[4] = {};
};

// A matrix [out, in], or a stack of `count` of them, contiguous; f32, bf16, or e4m3 with one scale per 128 x 128 block.
struct Matrix {
  const void* data = nullptr;
  const float* scale = nullptr;  // [count, ceil(out / 128), ceil(in / 128)] or null
  Type type = Type::bf16;
  bool power_of_two = false;  // of activation scales, in products of codes
  i64 count = 1, out = 0, in = 0;
};

}  // namespace fathom::cuda
