// What kernels for Hopper need from the host: whether the device and this build have them, and maps for tile copies.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "kernels/cuda/array.h"
#include "kernels/cuda/device.h"

namespace fathom::cuda {

constexpr int kSharedBytes = 227 * 1024;  // a block's at most

// A tile of an array of two or three dimensions, the innermost first.
struct TileMap {
  const void* data;
  Type type;
  int rank;
  i64 dim[3];
  i64 stride[2];  // bytes from one entry of dimensions 1 and 2 to the next; multiples of 16
  int box[3];     // the tile, which lies in shared memory without gaps
  int swizzle;    // 128, 64 or 0: bytes of a row whose 16-byte pieces are mixed
};

// The driver's cuTensorMapEncodeTiled; null where it has none.
void* tile_map_encoder();
// The map that the copy instructions read. It is a value: a recorded graph holds it.
CUtensorMap map_of(const Device& device, const TileMap& tile);

struct Maps {
  CUtensorMap w, x, scales;
};

}  // namespace fathom::cuda
