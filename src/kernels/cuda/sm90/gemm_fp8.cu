// Products of e4m3 rows with e4m3 weights.
#include "kernels/cuda/sm90/gemm.cuh"
#include "kernels/cuda/sm90/gemm_kernels.cuh"

namespace fathom::cuda {

void gemm_fp8(Stream& s, const Maps& maps, const GemmPlan& p) { launch_sm90_gemm<Kind::fp8, 2>(s, maps, p); }

}  // namespace fathom::cuda
