// Gate and shared experts with FP8 weights, few tokens.
#include "kernels/cuda/moe/gate.cuh"

namespace fathom::cuda {

void moe_gate_fp8(Stream& s, const MoeArgs& p) {
  if (p.gain != nullptr) return launch_moe_gate<true, Rows::shared, Rows::shared, 1>(s, p);
  p.quantise ? dispatch_moe_gate<true, Rows::codes>(s, p) : dispatch_moe_gate<true, Rows::bf16>(s, p);
}

}  // namespace fathom::cuda
