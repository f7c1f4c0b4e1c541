// A GPU as far as kernels are chosen, and their work is divided, by what it is.
#pragma once

namespace fathom::cuda {

struct Device {
  int multiprocessors = 0;
  int shared_bytes = 0;  // of a block at most
  int capability = 0;    // 90: compute capability 9.0
  // Whether its code in this build is sm_90a's, and the driver makes maps for copies of tiles.
  bool sm90a = false;
  void* tile_map_encoder = nullptr;  // the driver's cuTensorMapEncodeTiled
};

// `portable`: without the kernels that only some architectures have.
Device find_device(int index, bool portable = false);

}  // namespace fathom::cuda
