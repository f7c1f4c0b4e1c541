// Products of bf16, in pairs of blocks.
#include "kernels/cuda/hopper_gemm.cuh"
#include "kernels/cuda/hopper_products.cuh"

namespace fathom::cuda {

void wide_bf16(cudaStream_t s, const Hopper& device, const Maps& maps, const GemmPlan& p) {
  launch_hopper_gemm<Kind::bf16, 2>(s, device, maps, p);
}

}  // namespace fathom::cuda
