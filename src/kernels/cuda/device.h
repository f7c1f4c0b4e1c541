// A GPU as far as kernels are chosen, and their work is divided, by what it is; and where work for it is enqueued.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <unordered_map>

namespace fathom::cuda {

struct Device {
  int index = 0;
  int multiprocessors = 0;
  int shared_bytes = 0;                 // of a block at most
  int multiprocessor_shared_bytes = 0;  // of all its blocks
  int capability = 0;                   // 90: compute capability 9.0
  bool early = false;                   // kernels may begin before the one before them has ended
  // Whether its code in this build is sm_90a's, and the driver makes maps for copies of tiles.
  bool sm90a = false;
  void* tile_map_encoder = nullptr;  // the driver's cuTensorMapEncodeTiled
};

// Throws Error. `portable`: as a card without what only some architectures have: no kernels for them, no early starts,
// and no more shared memory a block than those with the least (compute capability 8.6, 8.9 and 12.0).
Device find_device(int index, bool portable = false);
constexpr int kPortableShared = 99 * 1024;

// A stream of a device.
struct Stream {
  cudaStream_t handle = nullptr;
  Device device;
  // Kernels that were allowed all the shared memory there is, and what each has besides what launches ask for.
  std::unordered_map<const void*, std::size_t> allowed = {};

  operator cudaStream_t() const { return handle; }
};

}  // namespace fathom::cuda
