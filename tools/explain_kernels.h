// The table of `fathom bench --explain-kernels`.
#pragma once

#include <span>

#include "model/args.h"
#include "ops/backend.h"

namespace fathom {

// Prints which kernel computes each product of the model, for passes of so many tokens on one rank.
void explain_kernels(const Backend& backend, const ModelArgs& args, GemmMode mode, std::span<const i64> tokens);

}  // namespace fathom
