// Operations on rows: embedding, gathering, copying, adding, norm, activation.
//
// Conventions of all operations: T tokens, N rows. "act" is float32 or bf16, whichever each tensor has: inputs are
// widened to float32, sums are float32, one rounding at the output. The last dimension of every tensor is contiguous;
// other strides are free where the comment says "strided", elsewhere tensors are contiguous. A struct in namespace op
// is what a backend is given: its shapes are checked, its outputs have their place; each() visits its tensors, an
// output first. A function in namespace ops is what a model calls: it checks shapes and takes the output from the
// context's arena.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace fathom {

struct Context;

// A root-mean-square norm: x / sqrt(mean(x^2) + eps) * gain.
struct Norm {
  Tensor gain;  // float32 [d]
  float eps = 0;
};

// A norm that is not applied yet, or x as it is where there is no gain. Products take it as it is.
struct Normed {
  Normed() = default;
  Normed(const Tensor& values) : x(values) {}  // NOLINT: a tensor is what it is
  Normed(const Tensor& values, const Norm& n) : x(values), norm(n) {}
  bool pending() const { return norm.gain.defined(); }

  Tensor x;  // act [N, d]
  Norm norm;
};

namespace op {

// y [N, d] = rows ids - first of table [V, d]; zeros for ids outside [first, first + V). y act, table bf16 or f32.
struct Embedding {
  Tensor y, table, ids;
  i64 first = 0;
  static constexpr const char* kName = "embedding";
  void each(auto&& f) { f(y), f(table), f(ids); }
};

// y [N, d] = x[rows]; x [T, d] strided, same type.
struct GatherRows {
  Tensor y, x, rows;
  static constexpr const char* kName = "gather_rows";
  void each(auto&& f) { f(y), f(x), f(rows); }
};

// y = x in y's type; same shape, any rank, both strided, act.
struct Copy {
  Tensor y, x;
  static constexpr const char* kName = "copy";
  void each(auto&& f) { f(y), f(x); }
};

// x += y; same shape, act, types may differ.
struct Add {
  Tensor x, y;
  static constexpr const char* kName = "add_";
  void each(auto&& f) { f(x), f(y); }
};

// y [N, d] = norm of x [N, d]; both strided rows, act.
struct RmsNorm {
  Tensor y, x;
  Norm norm;
  static constexpr const char* kName = "rms_norm";
  void each(auto&& f) { f(y), f(x), f(norm.gain); }
};

// y [N, d] = silu(a) * b, act.
struct SiluMul {
  Tensor y, a, b;
  static constexpr const char* kName = "silu_mul";
  void each(auto&& f) { f(y), f(a), f(b); }
};

// Random numbers of useful size, for benches without files: bf16 in +-0.03, e4m3 codes of all sizes up to 240, float32
// vectors near 1 and other float32 (scales) near 1 / 4096. The same on every device.
struct FillRandom {
  Tensor x;
  std::uint64_t seed = 0;
  static constexpr const char* kName = "fill_random";
  void each(auto&& f) { f(x); }
};

}  // namespace op

namespace ops {

// Rows of the embedding table shard that starts at `first`: [T, d] in float32 (the residual stream).
Tensor embedding(Context& ctx, const Tensor& table, const Tensor& ids, i64 first);
Tensor gather_rows(Context& ctx, const Tensor& x, const Tensor& rows);
void copy(Context& ctx, const Tensor& y, const Tensor& x);
void add_(Context& ctx, const Tensor& x, const Tensor& y);
// x in the activation type, or itself where no norm is pending.
Tensor apply(Context& ctx, const Normed& x);
// The same into y, whose rows may be strided.
void rms_norm(Context& ctx, const Tensor& y, const Tensor& x, const Norm& norm);
Tensor silu_mul(Context& ctx, const Tensor& a, const Tensor& b);

}  // namespace ops
}  // namespace fathom
