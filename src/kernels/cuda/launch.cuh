// Launching kernels so that each may begin before the one before it has ended.
#pragma once

#include "kernels/cuda/launch.h"

namespace fathom::cuda {

// Programmatic dependent launch: the next kernel may start its prologue; this one waits for the results of the last.
__device__ inline void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ inline void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Enqueues kernel(args...). It must call wait_for_previous() before it reads what earlier kernels wrote or writes
// anything.
template <typename... Params, typename... Args>
void launch_early(void (*kernel)(Params...), const char* name, dim3 grid, dim3 block, std::size_t shared,
                  cudaStream_t s, Args&&... args) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = s;
  config.attrs = &attribute;
  config.numAttrs = 1;
  if (shared > 48 * 1024)
    cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(shared));
  cudaLaunchKernelEx(&config, kernel, Params(args)...);
  check_launch(name);
}

// A launch of clusters of `cluster` blocks. `early`: as launch_early.
struct ClusterLaunch {
  int blocks, threads, bytes, cluster;
  bool early;
};
template <typename... Params, typename... Args>
void launch_cluster(void (*kernel)(Params...), const char* name, const ClusterLaunch& l, cudaStream_t s,
                    Args&&... args) {
  cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, l.bytes);
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {static_cast<unsigned>(l.cluster), 1, 1};
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(l.blocks));
  config.blockDim = dim3(static_cast<unsigned>(l.threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(l.bytes);
  config.stream = s;
  config.attrs = attributes;
  config.numAttrs = l.early ? 2 : 1;
  cudaLaunchKernelEx(&config, kernel, Params(args)...);
  check_launch(name);
}

// Says that a kernel with so much shared memory a block lives on the first-level cache. What a multiprocessor was set
// to by a kernel that wants all of it for shared memory stays otherwise, which made the experts' kernels half as fast.
template <typename Kernel>
void prefer_cache(Kernel* kernel, std::size_t shared, int blocks) {
  constexpr std::size_t kAll = 228 * 1024, kReserved = 1024;  // of a multiprocessor, of each block
  cudaFuncSetAttribute(
      reinterpret_cast<const void*>(kernel), cudaFuncAttributePreferredSharedMemoryCarveout,
      static_cast<int>((static_cast<std::size_t>(blocks) * (shared + kReserved) * 100 + kAll - 1) / kAll));
}

}  // namespace fathom::cuda
