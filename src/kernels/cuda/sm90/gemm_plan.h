// How a product of many rows is divided on Hopper.
#pragma once

#include "kernels/cuda/linear/product.h"

namespace fathom::cuda {

constexpr i64 kGemmGroups = 1024;  // at most: their tiles are counted in shared memory

// Rows of a tile at most, for matrix `part` of a product.
int gemm_tile_rows(const ProductShape& shape, int part, int multiprocessors);

}  // namespace fathom::cuda
