// Routed experts with bf16 weights, few tokens.
#include "kernels/cuda/moe/experts.cuh"

namespace fathom::cuda {

void moe_up_bf16(Stream& s, const MoeArgs& p) { run_moe_up<false, Rows::bf16>(s, p); }
void moe_down_bf16(Stream& s, const MoeArgs& p) {
  p.rows != nullptr ? run_moe_down_rows<false, Rows::bf16>(s, p) : run_moe_down<false, Rows::bf16>(s, p);
}

}  // namespace fathom::cuda
