// GEMV with FP8 weights with a scale per 128 x 128 block.
#include "kernels/cuda/linear/gemv.cuh"

namespace fathom::cuda {

void gemv_fp8(cudaStream_t s, const GemvPlan& p, int multiprocessors) {
  if (p.gain != nullptr || p.quantise)
    dispatch_gemv<true, Rows::shared>(s, p, multiprocessors);
  else if (p.x_scale != nullptr)
    dispatch_gemv<true, Rows::codes>(s, p, multiprocessors);
  else
    dispatch_gemv<true, Rows::bf16>(s, p, multiprocessors);
}

}  // namespace fathom::cuda
