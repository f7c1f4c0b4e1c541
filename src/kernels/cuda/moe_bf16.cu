// Routed experts with bf16 weights, few tokens.
#include "kernels/cuda/moe_small.cuh"

namespace fathom::cuda {

void moe_up_bf16(cudaStream_t s, const SmallMoe& p) { run_moe_up<false>(s, p); }
void moe_down_bf16(cudaStream_t s, const SmallMoe& p) { run_moe_down<false>(s, p); }

}  // namespace fathom::cuda
