// Few rows times bf16 weights.
#include "kernels/cuda/linear_small.cuh"

namespace fathom::cuda {

void linear_small_bf16(cudaStream_t s, const SmallLinear& p) {
  p.gain != nullptr ? dispatch_linear_small<false, Rows::normed>(s, p) : dispatch_linear_small<false, Rows::bf16>(s, p);
}

}  // namespace fathom::cuda
