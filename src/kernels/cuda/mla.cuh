// What the two halves of attention over the latent cache share: how a token's context is divided.
#pragma once

#include "kernels/cuda/common.cuh"
#include "kernels/cuda/launch.cuh"

namespace fathom::cuda {

constexpr int kRank = 512;     // of the latent
constexpr int kPartKeys = 64;  // keys of a tile

// A token's context in `parts` runs of `tiles` tiles of keys.
struct Division {
  int tiles, parts;
};
__device__ inline Division divide(int keys, int splits) {
  const int tiles = (keys + kPartKeys - 1) / kPartKeys;
  const int each = max(1, (tiles + splits - 1) / splits);
  return {each, (tiles + each - 1) / each};
}

}  // namespace fathom::cuda
