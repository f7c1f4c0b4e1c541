// What a launch asks for, and whether the device can give it. Kept apart from device code: nvcc reads no formatting
// library.
#pragma once

#include "kernels/cuda/device.h"

namespace fathom::cuda {

struct Launch {
  const char* name;
  dim3 grid, block;
  std::size_t shared = 0;  // bytes of a block, beside the kernel's own
  // Programmatic dependent launch, where the device has it: the kernel may begin before the one before it has ended.
  bool early = false;
  int cluster = 0;  // blocks of a cluster; 0: there are none
  // Of a kernel that lives on the first-level cache: blocks of a multiprocessor for which shared memory is enough. What
  // a multiprocessor was set to by a kernel that wants all of it stays otherwise, which made the experts' kernels half
  // as fast. 0: the driver decides.
  int at_once = 0;
};

struct Configuration {
  cudaLaunchConfig_t config{};
  cudaLaunchAttribute attributes[3]{};
};
// Throws Error when the grid or a block's shared memory is more than the device has.
void configure(Stream& s, const void* kernel, const Launch& launch, Configuration& to);

// Throws Error when a launch was refused.
void check_launch(const char* kernel, cudaError_t error);

}  // namespace fathom::cuda
