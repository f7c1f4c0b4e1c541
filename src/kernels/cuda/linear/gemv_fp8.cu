// GEMV with FP8 weights with a scale per 128 x 128 block.
#include "kernels/cuda/linear/gemv.cuh"

namespace fathom::cuda {

void gemv_fp8(Stream& s, const GemvPlan& p) {
  if (p.gain != nullptr || p.quantise)
    dispatch_gemv<true, Rows::shared>(s, p);
  else if (p.x_scale != nullptr)
    dispatch_gemv<true, Rows::codes>(s, p);
  else
    dispatch_gemv<true, Rows::bf16>(s, p);
}

}  // namespace fathom::cuda
