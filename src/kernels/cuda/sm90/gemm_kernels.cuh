// The kernels of gemm.cuh, each compiled in a file of its own.
#pragma once

#include "kernels/cuda/sm90/gemm_scheduler.cuh"
#include "kernels/cuda/sm90/tile_map.h"

namespace fathom::cuda {

void gemm_bf16(Stream& s, const Maps& maps, const GemmPlan& p);
void gemm_bf16_single(Stream& s, const Maps& maps, const GemmPlan& p);
void gemm_transposed(Stream& s, const Maps& maps, const GemmPlan& p);
void gemm_mixed(Stream& s, const Maps& maps, const GemmPlan& p);
void gemm_fp8(Stream& s, const Maps& maps, const GemmPlan& p);

}  // namespace fathom::cuda
