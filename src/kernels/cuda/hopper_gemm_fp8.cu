// Products of e4m3 rows with e4m3 weights.
#include "kernels/cuda/hopper_gemm.cuh"
#include "kernels/cuda/hopper_products.cuh"

namespace fathom::cuda {

void wide_fp8(cudaStream_t s, const Hopper& device, const Maps& maps, const GemmPlan& p) {
  launch_hopper_gemm<Kind::fp8, 2>(s, device, maps, p);
}

}  // namespace fathom::cuda
