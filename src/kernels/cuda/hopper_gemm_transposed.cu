// Products with matrices [in, 128] of bf16, one after another.
#include "kernels/cuda/hopper_gemm.cuh"
#include "kernels/cuda/hopper_products.cuh"

namespace fathom::cuda {

void wide_transposed(cudaStream_t s, const Hopper& device, const Maps& maps, const GemmPlan& p) {
  launch_hopper_gemm<Kind::transposed, 2>(s, device, maps, p);
}

}  // namespace fathom::cuda
