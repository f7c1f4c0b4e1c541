// Checks after launches. Kept apart from device code: nvcc reads no formatting library.
#pragma once

#include <cuda_runtime_api.h>

namespace fathom::cuda {

// Throws Error when the last launch was refused.
void check_launch(const char* kernel);

}  // namespace fathom::cuda
