// Products with matrices [in, 128] of bf16, one after another.
#include "kernels/cuda/sm90/gemm.cuh"
#include "kernels/cuda/sm90/gemm_kernels.cuh"

namespace fathom::cuda {

void gemm_transposed(cudaStream_t s, const Device& device, const Maps& maps, const GemmPlan& p) {
  launch_sm90_gemm<Kind::transposed, 2>(s, device, maps, p);
}

}  // namespace fathom::cuda
