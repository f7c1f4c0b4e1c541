// What the operations share: checks of operands, and how a backend is called.
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

// Runs an operation with the scratch that it takes, which is the arena's: so a measured pass counts it.
template <typename Op>
void run_with(Context& ctx, const Op& op, i64 scratch_bytes) {
  const ArenaScope scope(ctx.arena);
  ctx.backend.lend(scratch_bytes > 0 ? ctx.arena.empty({scratch_bytes}, DType::u8) : Tensor{});
  ctx.backend.run(op);
  ctx.backend.lend({});
}
template <typename Op>
void run(Context& ctx, const Op& op) {
  run_with(ctx, op, ctx.backend.scratch_bytes(op));
}

// Whether an optional operation was done. They serve bf16 activations and round as those do.
template <typename Op>
bool try_run(Context& ctx, const Op& op) {
  if (!ctx.options.fused || ctx.options.compute != DType::bf16) return false;
  const std::optional<i64> bytes = ctx.backend.scratch_bytes(op);
  if (bytes) run_with(ctx, op, *bytes);
  return bytes.has_value();
}

}  // namespace fathom::ops
