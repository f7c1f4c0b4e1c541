// The kernels of products, each a function of the same form, and what their plans need; rows are ready by now.
#pragma once

#include "kernels/cuda/linear/chooser.h"

namespace fathom::cuda {

// simple.cu: any shape and type, the readable twin that the others are compared with.
void simple_product(Stream& s, const Product& p, const ProductPlan& plan);
// mma.cu: tiles of 128 rows x 256 outputs on tensor cores.
void mma_product(Stream& s, const Product& p, const ProductPlan& plan);
// gemv_*.cu: weights stream once through registers.
void gemv_product(Stream& s, const Product& p, const ProductPlan& plan);
// sm90/splitk*.cu: swap-AB, the inner dimension shared by the blocks of a cluster.
void splitk_product(Stream& s, const Product& p, const ProductPlan& plan);
// sm90/gemm*.cu: swap-AB, warp-specialised and persistent.
void gemm_product(Stream& s, const Product& p, const ProductPlan& plan);

// Whether GEMV can make that many rows ready in its blocks' shared memory.
bool input_fits_shared(const Device& device, i64 rows, i64 in);

}  // namespace fathom::cuda
