// Which tile of a product is whose: found on the device, because the experts' numbers of rows are known only there.
#pragma once

#include "kernels/cuda/numbers.cuh"

namespace fathom::cuda {

constexpr int kScaleRows = 128 + 4;  // scales that come with a tile of codes: from a multiple of four rows on

// A product as the kernel sees it. Groups are experts, with rows of their own, or heads, all with the same rows.
struct GemmPlan {
  void* y;
  Type y_type;
  bool vector, add;  // rows of y can be written 16 bytes at a time; y += instead of y =
  i64 y_stride, y_head;
  i64 y_block;  // from 128 outputs to the next: 128, or more where they are heads with something between
  const std::int32_t* offsets;  // [groups + 1] or null: each group has all the rows
  const float* w_scale;         // [groups, ceil(out / 128), ceil(in / 128)]
  int groups, rows, out, steps;
  int scale_rows, scale_columns;
  int w_rows, x_head;  // steps from group to group in the maps of w and x
  int most;            // tokens of a tile at most
  int stages, stage_bytes;
  bool whole;  // tiles of `most` tokens, and one with the rest; else of nearly one size

  template <typename T>
  __device__ const float* scales_of(const T& tile) const {
    const int row = min(tile.out / 128, scale_rows - 1);
    return w_scale + (static_cast<i64>(tile.group) * scale_rows + row) * scale_columns;
  }
};

struct GemmTile {
  int group, begin, rows, width, out;  // tokens begin .. begin + rows, computed as `width`; outputs from `out` on
};

// The narrowest tile for so many tokens.
__host__ __device__ inline int width_of(int rows) { return (rows + 31) / 32 * 32; }

// Rows of a group in pieces.
struct Pieces {
  int size, count;
};
__device__ inline Pieces pieces_of(int rows, int most, bool whole) {
  if (rows == 0) return {32, 0};
  const int wanted = (rows + most - 1) / most;
  if (whole) return {most, wanted};
  const int size = width_of((rows + wanted - 1) / wanted);
  return {size, (rows + size - 1) / size};
}

__device__ inline int out_tiles(const GemmPlan& p, int pair) { return (p.out + 128 * pair - 1) / (128 * pair); }

// By one warp: first[g] = tiles of the groups before g.
__device__ inline void count_tiles(const GemmPlan& p, int* first, int pair) {
  const int lane = static_cast<int>(threadIdx.x % 32), outs = out_tiles(p, pair);
  int total = 0;
  if (lane == 0) first[0] = 0;
  for (int base = 0; base < p.groups; base += 32) {
    const int g = base + lane;
    int rows = 0;
    if (g < p.groups) rows = p.offsets == nullptr ? p.rows : p.offsets[g + 1] - p.offsets[g];
    int sum = pieces_of(rows, p.most, p.whole).count * outs;
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(0xffffffffu, sum, step);
      if (lane >= step) sum += other;
    }
    if (g < p.groups) first[g + 1] = total + sum;
    total += __shfl_sync(0xffffffffu, sum, 31);
  }
}

// Tile t for block `rank` of a pair. Within a group, eight pieces of tokens go with each tile of outputs before the
// next: what runs at a time needs few different rows of both sides.
__device__ inline GemmTile find_tile(const GemmPlan& p, const int* first, int t, int rank, int pair) {
  int low = 0, high = p.groups - 1;  // the first g with first[g + 1] > t
  while (low < high) {
    const int middle = (low + high) / 2;
    if (first[middle + 1] > t)
      high = middle;
    else
      low = middle + 1;
  }
  const int begin = p.offsets == nullptr ? 0 : p.offsets[low],
            rows = p.offsets == nullptr ? p.rows : p.offsets[low + 1] - begin;
  const Pieces pieces = pieces_of(rows, p.most, p.whole);
  const int within = t - first[low], band = 8 * out_tiles(p, pair), piece0 = within / band * 8,
            wide = min(8, pieces.count - piece0), at = within % band;
  const int start = (piece0 + at % wide) * pieces.size;
  return {low, begin + start, min(pieces.size, rows - start), pieces.size, (at / wide * pair + rank) * 128};
}

}  // namespace fathom::cuda
