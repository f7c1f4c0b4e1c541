// Products of bf16, in pairs of blocks.
#include "kernels/cuda/sm90/gemm.cuh"
#include "kernels/cuda/sm90/gemm_kernels.cuh"

namespace fathom::cuda {

void gemm_bf16(Stream& s, const Maps& maps, const GemmPlan& p) { launch_sm90_gemm<Kind::bf16, 2>(s, maps, p); }

}  // namespace fathom::cuda
