// The fewest bytes that a decode step must read.
#pragma once

#include "model/args.h"

namespace fathom {

// Weights (with the experts that `batch` tokens choose on average) and cache of one step at this context.
double decode_bytes(const ModelArgs& args, i64 batch, i64 context);

}  // namespace fathom
