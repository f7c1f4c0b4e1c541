// The tiles of the kernel `mma` and what they take of shared memory.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/linear/kind.h"

namespace fathom::cuda {

constexpr int kTileRows = 128, kTileOuts = 256, kTileIn = 64, kMostMmaStages = 4;

// Bytes of a stage: a tile of rows and one of weights.
constexpr int mma_stage_bytes(Kind kind) {
  const int x = kind == Kind::fp8 ? 1 : 2, w = kind == Kind::bf16 ? 2 : 1;
  return kTileIn * (kTileRows * x + kTileOuts * w);
}

// Stages that a block of so much shared memory has room for. Every card that the kernel is for has room for
// kLeastMmaStages: 96 KiB in each case.
constexpr int mma_stages(Kind kind, int shared_bytes) {
  const int room = shared_bytes / mma_stage_bytes(kind);
  return room < kMostMmaStages ? room : kMostMmaStages;
}
template <Kind kKind>
constexpr int kLeastMmaStages = mma_stages(kKind, kPortableShared);

}  // namespace fathom::cuda
