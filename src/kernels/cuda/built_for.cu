#include "kernels/cuda/built_for.h"

#include <cuda_runtime_api.h>

namespace fathom::cuda {
namespace {

__global__ void nothing() {}

}  // namespace

std::string_view built_for() { return FATHOM_BUILT_FOR; }

bool runs_here() {
  cudaFuncAttributes attributes;
  const bool found = cudaFuncGetAttributes(&attributes, nothing) == cudaSuccess;
  cudaGetLastError();  // the answer is this function's, not the next call's
  return found;
}

}  // namespace fathom::cuda
