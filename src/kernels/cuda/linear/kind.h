// What the operands of a product are, as far as main loops differ.
#pragma once

#include "kernels/cuda/linear/product.h"

namespace fathom::cuda {

// What w is. bf16; bf16 with rows along the inner dimension (matrix [in, out]); e4m3 codes with bf16 tokens, widened in
// registers; codes with codes.
enum class Kind : std::uint8_t { bf16, transposed, mixed, fp8 };

inline Kind kind_of(const ProductShape& s) {
  if (s.fp8()) return s.mixed() ? Kind::mixed : Kind::fp8;
  return s.transposed ? Kind::transposed : Kind::bf16;
}
// Of rows that are ready.
inline Kind kind_of(const Product& p) {
  if (p.part[0].w.type == Type::e4m3) return p.x_type == Type::e4m3 ? Kind::fp8 : Kind::mixed;
  return p.w_transposed ? Kind::transposed : Kind::bf16;
}

}  // namespace fathom::cuda
