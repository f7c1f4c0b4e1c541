// Products with matrices [in, 128] of bf16, one after another.
#include "kernels/cuda/sm90/gemm.cuh"
#include "kernels/cuda/sm90/gemm_kernels.cuh"

namespace fathom::cuda {

void gemm_transposed(Stream& s, const Maps& maps, const GemmPlan& p) {
  launch_sm90_gemm<Kind::transposed, 2>(s, maps, p);
}

}  // namespace fathom::cuda
