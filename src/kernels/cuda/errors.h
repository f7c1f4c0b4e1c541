// Checking of CUDA calls.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

namespace fathom {

// Throws Error naming what was tried when a call failed; DeviceLost when the GPU cannot be used any more.
void check_cuda(cudaError_t error, std::string_view what);

}  // namespace fathom
