// How a product of a few dozen rows is divided over the multiprocessors of a Hopper GPU: how many outputs a tile has,
// and into how many parts the inner dimension is cut.
#pragma once

#include "kernels/cuda/linear/product.h"

namespace fathom::cuda {

constexpr i64 kSplitKRows = 256;  // at most

struct SplitK {
  int outputs = 128;  // of a tile: a multiple of 16, at most 128
  int splits = 1;     // of the inner dimension: blocks of a cluster that add up their sums
  int width = 32;     // tokens, as the instructions take them
  int at_once = 2;    // blocks a multiprocessor holds
};
SplitK divide_splitk(const ProductShape& shape, int multiprocessors);

// Tiles of all matrices together.
i64 splitk_tiles(const ProductShape& shape, int outputs);

}  // namespace fathom::cuda
