#include "kernels/cuda/device.h"

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
  Device device;
  int major = 0, minor = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index);
  cudaDeviceGetAttribute(&device.multiprocessors, cudaDevAttrMultiProcessorCount, index);
  cudaDeviceGetAttribute(&device.shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, index);
  device.capability = 10 * major + minor;
  if (!portable && device.capability == 90 && has_sm90a_code()) device.tile_map_encoder = tile_map_encoder();
  device.sm90a = device.tile_map_encoder != nullptr;
  return device;
}

}  // namespace fathom::cuda
