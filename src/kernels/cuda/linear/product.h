// One description of a product y = x w^T for all kernels that compute it, and its shape, by which one is chosen.
#pragma once

#include "kernels/cuda/array.h"
#include "kernels/cuda/device.h"

namespace fathom::cuda {

constexpr int kMostParts = 3;

// Up to three matrices with the same input. Each is one matrix; or a stack of which every group of rows takes one
// (`offsets`: experts), or every head (`heads` > 1).
struct Product {
  struct Part {
    Matrix w;
    void* y = nullptr;  // [rows, heads, out]
    Type y_type = Type::bf16;
    i64 y_stride = 0;
  };
  Part part[kMostParts];
  int parts = 1;
  i64 rows = 0;
  const void* x = nullptr;  // [rows, heads, in]
  Type x_type = Type::bf16;
  i64 x_stride = 0;
  // Of e4m3 codes, a float32 scale for 128 entries of a row: [rows, in / 128]; with a stride, a multiple of 4, a scale
  // column after the other: [in / 128, x_scale_stride].
  const float* x_scale = nullptr;
  i64 x_scale_stride = 0;
  const std::int32_t* offsets = nullptr;  // [count + 1]: rows offsets[e] .. offsets[e + 1] take matrix e
  int heads = 1;
  i64 x_head = 0, w_head = 0, y_head = 0;  // from head to head; x_head 0: all heads have the same rows
  bool w_transposed = false;               // [heads, in, out]
  // What comes first: rows are RMS-normalised with these gains, then quantised.
  const float* gain = nullptr;  // [in]
  float eps = 0;
  bool quantise = false;
  // What happens at the end: y += instead of y =.
  bool add = false;
  bool between_experts = false;  // the kernels before and after it are those of moe/
};

// What a kernel is chosen by.
struct ProductShape {
  i64 rows = 0, in = 0, out[kMostParts] = {};
  int parts = 1;
  i64 groups = 0;  // of rows, whose number each only the device knows; 0: none
  i64 heads = 1;
  Type x = Type::bf16, w = Type::bf16;
  bool norm = false, quantise = false, add = false, transposed = false, between_experts = false;
  bool same_rows = false;    // for all heads
  bool y_f32 = false;        // all results are float32
  bool x_aligned = true;     // rows of x begin at whole 16 bytes
  bool w_aligned = true;     // rows of w do
  bool w_contiguous = true;  // heads lie one behind the other

  i64 outputs() const {
    i64 all = 0;
    for (int i = 0; i < parts; ++i) all += out[i];
    return all;
  }
  bool fp8() const { return w == Type::e4m3; }
  // FP8 weights with activations as they are.
  bool mixed() const { return fp8() && !quantise && x != Type::e4m3; }
};
ProductShape shape_of(const Product& p);

}  // namespace fathom::cuda
