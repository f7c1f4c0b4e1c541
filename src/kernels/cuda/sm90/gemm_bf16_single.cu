// Products of bf16 with at most 128 outputs a head: single blocks.
#include "kernels/cuda/sm90/gemm.cuh"
#include "kernels/cuda/sm90/gemm_kernels.cuh"

namespace fathom::cuda {

void gemm_bf16_single(Stream& s, const Maps& maps, const GemmPlan& p) { launch_sm90_gemm<Kind::bf16, 1>(s, maps, p); }

}  // namespace fathom::cuda
