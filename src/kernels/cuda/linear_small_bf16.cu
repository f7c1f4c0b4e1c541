// Few rows times bf16 weights.
#include "kernels/cuda/linear_small.cuh"

namespace fathom::cuda {

void linear_small_bf16(cudaStream_t s, const SmallLinear& p) {
  p.gain != nullptr ? dispatch_linear_small<false, Rows::staged>(s, p) : dispatch_linear_small<false, Rows::bf16>(s, p);
}

bool stage_fits(i64 tokens, i64 in) {
  constexpr std::size_t kKept = 16u << 10;  // for the sums of warps, and what a kernel has besides
  int device = 0, most = 0;
  if (tokens > StagePlace::kMostStaged || cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess)
    return false;
  return StagePlace::bytes(tokens, in) + kKept <= static_cast<std::size_t>(most);
}

}  // namespace fathom::cuda
