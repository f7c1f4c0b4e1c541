#include "kernels/cuda/sm90/splitk_plan.h"

#include <algorithm>

namespace fathom::cuda {
namespace {

constexpr int kMostSplits = 8;   // a cluster's blocks at most
constexpr i64 kLeastPart = 512;  // entries of the inner dimension that are worth a block

i64 divide_up(i64 a, i64 b) { return (a + b - 1) / b; }

}  // namespace

i64 splitk_tiles(const ProductShape& shape, int outputs) {
  i64 tiles = 0;
  for (int i = 0; i < shape.parts; ++i) tiles += divide_up(shape.out[i], outputs);
  return tiles;
}

SplitK divide_splitk(const ProductShape& shape, int multiprocessors) {
  SplitK c;
  c.width = shape.rows <= 32 ? 32 : shape.rows <= 64 ? 64 : shape.rows <= 128 ? 128 : 256;
  c.at_once = c.width > 128 ? 1 : 2;
  // Blocks at most: one round of them. Widening codes takes long enough for more to pay.
  const i64 room = c.at_once == 1  ? multiprocessors * 9 / 10
                   : shape.mixed() ? multiprocessors * 5 / 2
                                   : multiprocessors * 2;
  for (const int outputs : {128, 112, 96, 64}) {
    c.outputs = outputs;
    const i64 tiles = splitk_tiles(shape, c.outputs);
    c.splits = 1;
    while (c.splits < kMostSplits && tiles * c.splits * 2 <= room && shape.in / (c.splits * 2) >= kLeastPart)
      c.splits *= 2;
    const i64 blocks = tiles * c.splits;
    // A few clusters of eight more than the processors take leave some with two blocks and others with none.
    const bool uneven =
        c.splits == kMostSplits && c.at_once > 1 && blocks > multiprocessors && blocks < multiprocessors * 10 / 9;
    if (blocks * 3 >= multiprocessors * 2 && !uneven) break;
  }
  // Alone on its multiprocessor a block has twice as many stages.
  if (splitk_tiles(shape, c.outputs) * c.splits <= multiprocessors * 8 / 9) c.at_once = 1;
  return c;
}

}  // namespace fathom::cuda
