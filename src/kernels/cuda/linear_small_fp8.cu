// Few rows times FP8 weights with a scale per 128 x 128 block.
#include "kernels/cuda/linear_small.cuh"

namespace fathom::cuda {

void linear_small_fp8(cudaStream_t s, const SmallLinear& p) {
  if (p.gain != nullptr || p.quantise)
    dispatch_linear_small<true, Rows::staged>(s, p);
  else if (p.x_scale != nullptr)
    dispatch_linear_small<true, Rows::codes>(s, p);
  else
    dispatch_linear_small<true, Rows::bf16>(s, p);
}

}  // namespace fathom::cuda
