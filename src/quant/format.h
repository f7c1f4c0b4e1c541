// Format: how the numbers of a weight matrix are stored, as a value with an interface.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "tensor/tensor.h"

namespace fathom {

// What a format is. Numbers of a group share one scale, and one zero point where the format has them: a rectangle of
// group_rows x group_cols numbers of the matrix [out, in], cut (not padded) at the edges.
struct FormatTraits {
  std::string_view name;
  DType element = DType::bf16;          // of the data tensor; u8 where numbers do not fill elements of their own
  int bits = 16;                        // of one number
  i64 group_rows = 0, group_cols = 0;   // 0: no scales
  DType scale_type = DType::f32;        // on the device; a file may hold a narrower one
  std::optional<DType> zero_type = {};  // none: no zero points
  i64 activation_group = 0;   // entries of a row of activations that share a scale with --gemm fp8; 0: none do
  bool power_of_two = false;  // scales of weights and of quantised activations are powers of two (UE8M0)
};

// A format has no state, lives as long as the program (or test) and is compared by address. Matrices of `out` rows of
// `in` numbers lie in up to three tensors: data, scales and zero points.
class Format {
 public:
  virtual ~Format() = default;
  Format(const Format&) = delete;
  Format& operator=(const Format&) = delete;

  std::string_view name() const { return traits_.name; }
  DType element() const { return traits_.element; }
  i64 bits() const { return traits_.bits; }
  bool has_scale() const { return traits_.group_cols > 0; }
  bool has_zero() const { return traits_.zero_type.has_value(); }
  i64 group_rows() const { return traits_.group_rows; }
  i64 group_cols() const { return traits_.group_cols; }
  DType scale_type() const { return traits_.scale_type; }
  DType zero_type() const { return traits_.zero_type.value_or(DType::u8); }
  i64 activation_group() const { return traits_.activation_group; }
  bool power_of_two() const { return traits_.power_of_two; }

  // Shapes of the tensors of a matrix. Here rows of whole elements, one after another, and a grid of groups; throws
  // Error when rows do not fill whole elements.
  virtual Shape data_shape(i64 out, i64 in) const;
  virtual Shape scale_shape(i64 out, i64 in) const;  // of zero points too
  // A matrix may be cut along `dim` (0: rows, 1: columns) at multiples of this: the tensors of the parts are the parts
  // of the tensors.
  virtual i64 unit(int dim) const;

  // The plain reference forms, on host memory. `w`, `y`: float32 [out, in]; `scale` and `zero` are null where the
  // format has none.
  virtual void quantize(const float* w, i64 out, i64 in, void* data, void* scale, void* zero) const = 0;
  virtual void dequantize(const void* data, const void* scale, const void* zero, i64 out, i64 in, float* y) const = 0;

 protected:
  constexpr explicit Format(const FormatTraits& traits) : traits_(traits) {}

 private:
  FormatTraits traits_;
};

extern const Format &kF32, &kBf16, &kFp8Block128, &kFp8Block128Ue8m0;

// All formats, for messages and look-ups.
std::span<const Format* const> all_formats();

// The format of a stored matrix whose data are of this type, with scales beside them or not: `configured` if it can be
// that one, else the first of the table that can; nullptr when there is none.
const Format* find_format(DType element, bool scaled, const Format& configured);

}  // namespace fathom
