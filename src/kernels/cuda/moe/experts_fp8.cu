// Routed experts with FP8 weights, few tokens.
#include "kernels/cuda/moe/experts.cuh"

namespace fathom::cuda {

void moe_up_fp8(Stream& s, const MoeArgs& p) {
  p.quantise ? run_moe_up<true, Rows::codes>(s, p) : run_moe_up<true, Rows::bf16>(s, p);
}

void moe_down_fp8(Stream& s, const MoeArgs& p) {
  if (p.rows != nullptr)
    return p.quantise ? run_moe_down_rows<true, Rows::codes>(s, p) : run_moe_down_rows<true, Rows::bf16>(s, p);
  if (!p.quantise) return run_moe_down<true, Rows::bf16>(s, p);
  p.hidden_codes.data == nullptr ? run_moe_down<true, Rows::shared>(s, p) : run_moe_down<true, Rows::codes>(s, p);
}

}  // namespace fathom::cuda
