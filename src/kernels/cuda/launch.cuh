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

// Enqueues kernel(args...). With `early` it must call wait_for_previous() before it reads what earlier kernels wrote or
// writes anything.
template <typename... Params, typename... Args>
void launch(void (*kernel)(Params...), const Launch& what, Stream& s, Args&&... args) {
  Configuration c;
  configure(s, reinterpret_cast<const void*>(kernel), what, c);
  check_launch(what.name, cudaLaunchKernelEx(&c.config, kernel, Params(args)...));
}
template <typename... Params, typename... Args>
void launch_early(void (*kernel)(Params...), const char* name, dim3 grid, dim3 block, std::size_t shared, Stream& s,
                  Args&&... args) {
  launch(kernel, {name, grid, block, shared, true}, s, args...);
}

}  // namespace fathom::cuda
