// Drawing tokens from logits.
#pragma once

#include "base/sampling.h"
#include "kernels/cuda/array.h"
#include "kernels/cuda/device.h"

namespace fathom::cuda {

struct Sampling {
  std::int32_t* ids;    // [N]
  const float* logits;  // [N, vocab]
  i64 logits_stride;
  int rows, vocab;
  const RowSampling* params;  // [N]
  const std::uint8_t* seen;   // [N, seen_stride] or null
  i64 seen_stride;
};
void sample(Stream& s, const Sampling& args);
// ids[i] = -1 where row i of logits holds NaN or infinity (finite.cu)
void mark_not_finite(Stream& s, const Sampling& args);

}  // namespace fathom::cuda
