// How a product of a few dozen rows is divided over the multiprocessors of a Hopper GPU: how many outputs a tile has,
// and into how many parts the inner dimension is cut.
#pragma once

#include "kernels/cuda/linear/product.h"

namespace fathom::cuda {

constexpr i64 kSplitKRows = 256;  // at most

struct SplitKShape {
  i64 out[3] = {};  // outputs of up to three matrices
  int parts = 1;
  i64 rows = 0, in = 0;
  int w_bytes = 2, x_bytes = 2;  // of an entry
};

struct SplitK {
  int outputs = 128;  // of a tile: a multiple of 16, at most 128
  int splits = 1;     // of the inner dimension: blocks of a cluster that add up their sums
  int width = 32;     // tokens, as the instructions take them
  int at_once = 2;    // blocks a multiprocessor holds
};

// Whether these kernels are the fastest for so many rows and outputs (bench/results/2026-11-30-h200-dense.txt).
bool splitk_pays(const SplitKShape& shape);
SplitK choose_splitk(const SplitKShape& shape, int multiprocessors);

// Tiles of all matrices together.
i64 splitk_tiles(const SplitKShape& shape, int outputs);

// Whether these kernels can compute these products, which have the same rows.
bool splitk_fits(const WideProduct* products, int count);
SplitKShape splitk_shape(const WideProduct* products, int count);
void splitk_run(cudaStream_t s, const Device& device, const WideProduct* products, int count, const SplitK& choice);

}  // namespace fathom::cuda
