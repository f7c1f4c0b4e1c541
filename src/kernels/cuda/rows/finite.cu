// Rows of logits from which nothing can be drawn.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/rows/sampling.h"

namespace fathom::cuda {
namespace {

constexpr int kThreads = 256, kPieces = 16;  // blocks a row

__global__ void __launch_bounds__(kThreads) mark_not_finite_kernel(Sampling args) {
  const float* row = args.logits + static_cast<i64>(blockIdx.x) * args.logits_stride;
  float sum = 0;  // of x * 0: 0 unless some x is infinite or NaN
  for (int i = static_cast<int>(blockIdx.y * kThreads + threadIdx.x); i < args.vocab; i += kPieces * kThreads)
    sum += row[i] * 0.0f;
  if (sum != 0.0f) args.ids[blockIdx.x] = -1;  // many threads may write it: the same value
}

}  // namespace

void mark_not_finite(Stream& s, const Sampling& args) {
  if (args.rows == 0) return;
  launch(mark_not_finite_kernel, {"mark_not_finite", dim3(static_cast<unsigned>(args.rows), kPieces), kThreads}, s,
         args);
}

}  // namespace fathom::cuda
