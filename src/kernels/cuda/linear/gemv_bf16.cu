// Few rows times bf16 weights.
#include "kernels/cuda/linear/gemv.cuh"

namespace fathom::cuda {

void gemv_bf16(cudaStream_t s, const GemvPlan& p) {
  p.gain != nullptr ? dispatch_gemv<false, Rows::shared>(s, p) : dispatch_gemv<false, Rows::bf16>(s, p);
}

bool input_fits_shared(i64 tokens, i64 in) {
  constexpr std::size_t kKept = 16u << 10;  // for the sums of warps, and what a kernel has besides
  int device = 0, most = 0;
  if (tokens > InputPlace::kMostPrepared || cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess)
    return false;
  return InputPlace::bytes(tokens, in) + kKept <= static_cast<std::size_t>(most);
}

}  // namespace fathom::cuda
