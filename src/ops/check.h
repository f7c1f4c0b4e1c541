// Checks of operands that the operations share.
#pragma once

#include <optional>

#include "ops/context.h"

namespace fathom::ops {

inline bool is_activation(const Tensor& x) { return x.dtype() == DType::f32 || x.dtype() == DType::bf16; }

void check_shape(const char* op, const char* what, const Tensor& x, const Shape& expected);
// float32 or bf16 with so many dimensions, the last one contiguous.
void check_activation(const char* op, const char* what, const Tensor& x, int rank);
void check_integers(const char* op, const char* what, const Tensor& x, const Shape& expected);

inline DType out_type(const Context& ctx, std::optional<DType> out) { return out.value_or(ctx.options.compute); }

// Whether an optional operation was done. They serve bf16 activations and round as those do.
template <typename Op>
bool try_run(Context& ctx, const Op& op) {
  return ctx.options.fused && ctx.options.compute == DType::bf16 && ctx.backend.try_run(op);
}

}  // namespace fathom::ops
