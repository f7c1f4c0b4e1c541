// What kernels of attention share: where a token stands, and how its context is divided.
#pragma once

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/numbers.cuh"

namespace fathom::cuda {

// The sequence of a token, and its number of visible keys; -1 and 0 for padding after the last sequence.
struct Span {
  int sequence, keys;
};
__device__ inline Span span_of(const Sequences& seqs, int token) {
  int low = 0, high = seqs.count;  // the first s with seq_starts[s + 1] > token
  while (low < high) {
    const int middle = (low + high) / 2;
    if (seqs.seq_starts[middle + 1] > token)
      high = middle;
    else
      low = middle + 1;
  }
  if (low == seqs.count) return {-1, 0};
  return {low, min(seqs.positions[token] + 1, seqs.context_lens[low])};
}

// Row of the cache that holds position `position` of a sequence.
__device__ inline i64 cache_slot(const Sequences& seqs, const Cache& cache, int sequence, int position) {
  const std::int32_t block = seqs.block_tables[sequence * seqs.table_stride + position / cache.block_size];
  return static_cast<i64>(block) * cache.block_size + position % cache.block_size;
}

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
