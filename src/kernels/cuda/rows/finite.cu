// Rows of logits from which nothing can be drawn.
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/rows/sampling.h"

namespace fathom::cuda {
namespace {

constexpr int kThreads = 256, kPieces = 16;  // blocks a row

__global__ void __launch_bounds__(kThreads) mark_not_finite_kernel(Sampling args) {
  const float* row = args.logits + static_cast<i64>(blockIdx.y) * args.logits_stride;
  float sum = 0;  // of x * 0: 0 unless some x is infinite or NaN
  for (int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x); i < args.vocab; i += kPieces * kThreads)
    sum += row[i] * 0.0f;
  if (sum != 0.0f) args.ids[blockIdx.y] = -1;  // many threads may write it: the same value
}

}  // namespace

void mark_not_finite(cudaStream_t s, const Sampling& args) {
  if (args.rows == 0) return;
  mark_not_finite_kernel<<<dim3(kPieces, static_cast<unsigned>(args.rows)), kThreads, 0, s>>>(args);
  check_launch("mark_not_finite");
}

}  // namespace fathom::cuda
