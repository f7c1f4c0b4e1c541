// Checks after launches. Kept apart from device code: nvcc reads no formatting library.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace fathom::cuda {

// Throws Error, "what: CUDA's reason", unless `error` is none; DeviceLost when it is one after which nothing works.
void check(cudaError_t error, const std::string& what);

// Throws Error when the last launch was refused.
void check_launch(const char* kernel);

}  // namespace fathom::cuda
