#include "kernels/cuda/launch.h"

#include "base/check.h"

namespace fathom::cuda {

void check_launch(const char* kernel) {
  const cudaError_t error = cudaGetLastError();
  CHECK(error == cudaSuccess, "CUDA refused the kernel {}: {}", kernel, cudaGetErrorString(error));
}

}  // namespace fathom::cuda
