// Between decode steps: the drawn tokens become the next step's input. And random numbers for benches.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/rows/steps.h"

namespace fathom::cuda {
namespace {

// Lets no kernel start before its end: those of the next step read positions before they wait for the one before them.
__global__ void advance_kernel(Advance a) {
  __shared__ int row;
  wait_for_previous();
  if (threadIdx.x == 0) row = a.log[0];
  __syncthreads();
  for (int i = threadIdx.x; i < a.count; i += blockDim.x) {
    const int id = a.drawn[i], position = a.positions[i] + 1;
    if (row < a.log_rows) a.log[(row + 1) * a.count + i] = id;
    if (a.slots[i] < 0) continue;
    a.ids[i] = id;
    a.positions[i] = position;
    a.context_lens[i] += 1;
    a.sampling[i].step += 1;
    const int block = position / a.block_size;
    a.slots[i] = block < a.table_width
                     ? a.block_tables[i * a.table_stride + block] * a.block_size + position % a.block_size
                     : -1;
  }
  __syncthreads();
  if (threadIdx.x == 0 && row < a.log_rows) a.log[0] = row + 1;
}

__device__ std::uint32_t hash(std::uint64_t z) {
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return static_cast<std::uint32_t>(z >> 32);
}

// Matrices of about unit gain: bf16 in +-0.03, e4m3 codes of all sizes up to 240, float32 scales near 1 / 4096, vectors
// near 1.
__global__ void fill_random_kernel(Array x, i64 n, std::uint64_t seed) {
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 i = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; i < n; i += step) {
    const std::uint32_t bits = hash((seed << 40) + static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15u);
    const float unit = static_cast<float>(bits >> 8) * 0x1p-24f;
    if (x.type == Type::e4m3)
      static_cast<std::uint8_t*>(x.data)[i] = static_cast<std::uint8_t>((bits & 0x80u) | (bits >> 8) % 0x78u);
    else if (x.type == Type::bf16)
      store(x.data, x.type, i, (unit - 0.5f) * 0.06f);
    else
      static_cast<float*>(x.data)[i] = x.rank == 1 ? 0.9f + 0.2f * unit : 0x1p-12f * (0.5f + unit);
  }
}

}  // namespace

void advance(Stream& s, const Advance& a) { launch_early(advance_kernel, "advance", 1, 256, 0, s, a); }

void fill_random(Stream& s, const Array& x, std::uint64_t seed) {
  i64 n = 1;
  for (int d = 0; d < x.rank; ++d) n *= x.dim[d];
  if (n == 0) return;
  launch(fill_random_kernel, {"fill_random", 2048, 256}, s, x, n, seed);
}

}  // namespace fathom::cuda
