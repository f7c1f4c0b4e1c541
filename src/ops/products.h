// Products with weights. See rows.h for the conventions.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "ops/rows.h"
#include "quant/weight.h"

namespace fathom {

// How products with FP8 weights are computed. Named after the reference's gemm_impl.
enum class GemmMode : std::uint8_t {
  bf16,  // the weight is dequantised, activations stay as they are
  fp8,   // activations are quantised per 128 entries of a row, products of codes are scaled in float32
};

// A product without its numbers, to ask a device what it would do.
struct ProductCase {
  i64 tokens = 0, rows = 0;  // more rows than tokens where each goes to several experts
  i64 in = 0;
  std::vector<i64> outs;
  const Format* format = nullptr;  // of the weights
  GemmMode mode = GemmMode::bf16;
  bool norm = false, add = false;  // the rows are normalised first; the results are added
  i64 experts = 0;
};

namespace op {

// y [N, out] = x [N, in] w^T; x and y strided rows, act. With GemmMode::fp8 and a block format, x is quantised first.
struct Linear {
  Tensor y, x;
  Weight w;
  GemmMode mode = GemmMode::bf16;
  static constexpr const char* kName = "linear";
  void each(auto&& f) { f(y), f(x), w.each(f); }
};

// Rows offsets[e] .. offsets[e + 1] of x [R, in] times matrix e of w [E, out, in]; other rows of y are left alone.
struct GroupedLinear {
  Tensor y, x;
  Weight w;
  Tensor offsets;
  GemmMode mode = GemmMode::bf16;
  static constexpr const char* kName = "grouped_linear";
  void each(auto&& f) { f(y), f(x), w.each(f), f(offsets); }
};

// y [T, H, n] = for each head h: x [T, h, k] times w [h, n, k]^T, or w [h, k, n] where it is transposed. x and y are
// strided in T and H (heads may share their x: stride 0); w bf16 or f32.
struct HeadMatmul {
  Tensor y, x, w;
  bool transposed = false;
  static constexpr const char* kName = "head_matmul";
  void each(auto&& f) { f(y), f(x), f(w); }
};

// The bf16 or f32 matrix y [out, in] of a weight of any format that the backend dequantizes(). With `rows` (int32 [2])
// it is for rows rows[0] .. rows[1] of some input: where there are none, y need not be written.
struct Dequantize {
  Tensor y;
  Weight w;
  Tensor rows = {};
  static constexpr const char* kName = "dequantize";
  void each(auto&& f) { f(y), w.each(f), f(rows); }
};

// Optional: products of one input that is normalised first. ys[i] [N, out_i] = apply(x) ws[i]^T
struct NormLinear {
  std::span<const Tensor> ys;
  Normed x;
  std::span<const Weight> ws;
  GemmMode mode = GemmMode::bf16;
  static constexpr const char* kName = "norm_linear";
  void each(auto&& f) const { f(ys.front()), f(ys.back()), f(x.x); }
};

// Optional: h [N, out] float32 += x w^T
struct LinearAdd {
  Tensor h, x;
  Weight w;
  GemmMode mode = GemmMode::bf16;
  static constexpr const char* kName = "linear_add_";
  void each(auto&& f) const { f(h), f(x), f(w.data); }
};

}  // namespace op

namespace ops {

// x w^T in the activation type, or in `out`.
Tensor linear(Context& ctx, const Normed& x, const Weight& w, std::optional<DType> out = {});

// Products that share their input.
struct Product {
  const Weight& w;
  std::optional<DType> out = {};  // the activation type without it
};
std::vector<Tensor> linear(Context& ctx, const Normed& x, std::initializer_list<Product> products);

Tensor grouped_linear(Context& ctx, const Tensor& x, const Weight& w, const Tensor& offsets,
                      std::optional<DType> out = {});
// Into y, which may be part of a larger tensor.
void head_matmul(Context& ctx, const Tensor& y, const Tensor& x, const Tensor& w, bool transposed = false);

// h float32 [N, out] += the sum over the ranks of x w^T; gives the next norm of h.
Normed linear_add_norm(Context& ctx, const Tensor& h, const Tensor& x, const Weight& w, const Norm& next);

}  // namespace ops
}  // namespace fathom
