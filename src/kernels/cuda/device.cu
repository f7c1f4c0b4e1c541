#include "kernels/cuda/device.h"

#include <algorithm>

#include "kernels/cuda/errors.h"
#include "kernels/cuda/sm90/tile_map.h"

namespace fathom::cuda {
namespace {

__global__ void probe_kernel(int* found) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  *found = 1;
#else
  *found = 0;
#endif
}

// Whether the code that runs on this device was made for sm_90a, and not for something older or as portable code.
bool has_sm90a_code() {
  int found = 0, *place = nullptr;
  if (cudaMalloc(&place, sizeof(int)) != cudaSuccess) return false;
  probe_kernel<<<1, 1>>>(place);
  const bool copied = cudaMemcpy(&found, place, sizeof(int), cudaMemcpyDeviceToHost) == cudaSuccess;
  cudaFree(place);
  cudaGetLastError();
  return copied && found == 1;
}

}  // namespace

Device find_device(int index, bool portable) {
  const auto ask = [index](cudaDeviceAttr which) {
    int value = 0;
    check_cuda(cudaDeviceGetAttribute(&value, which, index), "ask for a property of a GPU");
    return value;
  };
  Device device;
  device.index = index;
  device.capability = 10 * ask(cudaDevAttrComputeCapabilityMajor) + ask(cudaDevAttrComputeCapabilityMinor);
  device.multiprocessors = ask(cudaDevAttrMultiProcessorCount);
  device.multiprocessor_shared_bytes = ask(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  device.shared_bytes = ask(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  if (portable) device.shared_bytes = std::min(device.shared_bytes, kPortableShared);
  device.early = device.capability >= 90 && !portable;
  if (!portable && device.capability == 90 && has_sm90a_code()) device.tile_map_encoder = tile_map_encoder();
  device.sm90a = device.tile_map_encoder != nullptr;
  return device;
}

}  // namespace fathom::cuda
