// The ring of stages in shared memory through which operands come by bulk copies: where a stage stands, and its
// barriers.
#pragma once

#include "kernels/cuda/sm90/instructions.cuh"

namespace fathom::cuda {

// A stage of a ring and the parity of its barriers' phase.
struct RingSlot {
  int stage = 0;
  std::uint32_t parity = 0;

  __device__ void next(int stages) {
    if (++stage == stages) stage = 0, parity ^= 1;
  }
};

// Two barriers a stage: its bytes have come; all consumers have read it.
__device__ inline std::uint32_t full_barrier(std::uint32_t barriers, const RingSlot& s) {
  return barriers + 16 * s.stage;
}
__device__ inline std::uint32_t empty_barrier(std::uint32_t barriers, const RingSlot& s) {
  return barriers + 16 * s.stage + 8;
}

// By one thread.
__device__ inline void init_ring(std::uint32_t barriers, int stages, int consumers) {
  for (int i = 0; i < stages; ++i) {
    barrier_init(barriers + 16 * i, 1);
    barrier_init(barriers + 16 * i + 8, consumers);
  }
  barriers_visible();
}

}  // namespace fathom::cuda
