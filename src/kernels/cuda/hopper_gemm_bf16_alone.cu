// Products of bf16 with at most 128 outputs a head: single blocks.
#include "kernels/cuda/hopper_gemm.cuh"
#include "kernels/cuda/hopper_products.cuh"

namespace fathom::cuda {

void wide_bf16_alone(cudaStream_t s, const Hopper& device, const Maps& maps, const GemmPlan& p) {
  launch_hopper_gemm<Kind::bf16, 1>(s, device, maps, p);
}

}  // namespace fathom::cuda
