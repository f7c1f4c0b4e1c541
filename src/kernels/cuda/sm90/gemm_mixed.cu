// Products of bf16 rows with e4m3 weights.
#include "kernels/cuda/sm90/gemm.cuh"
#include "kernels/cuda/sm90/gemm_kernels.cuh"

namespace fathom::cuda {

void gemm_mixed(Stream& s, const Maps& maps, const GemmPlan& p) { launch_sm90_gemm<Kind::mixed, 2>(s, maps, p); }

}  // namespace fathom::cuda
