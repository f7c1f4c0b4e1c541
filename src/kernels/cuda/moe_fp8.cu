// Routed experts with FP8 weights, few tokens.
#include "kernels/cuda/moe_small.cuh"

namespace fathom::cuda {

void moe_up_fp8(cudaStream_t s, const SmallMoe& p) { run_moe_up<true>(s, p); }
void moe_down_fp8(cudaStream_t s, const SmallMoe& p) { run_moe_down<true>(s, p); }

}  // namespace fathom::cuda
