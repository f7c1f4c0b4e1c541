// The kernels of hopper_gemm.cuh, each compiled in a file of its own.
#pragma once

#include "kernels/cuda/hopper.h"
#include "kernels/cuda/hopper_plan.cuh"

namespace fathom::cuda {

void wide_bf16(cudaStream_t s, const Hopper& device, const Maps& maps, const GemmPlan& p);
void wide_bf16_alone(cudaStream_t s, const Hopper& device, const Maps& maps, const GemmPlan& p);
void wide_transposed(cudaStream_t s, const Hopper& device, const Maps& maps, const GemmPlan& p);
void wide_mixed(cudaStream_t s, const Hopper& device, const Maps& maps, const GemmPlan& p);
void wide_fp8(cudaStream_t s, const Hopper& device, const Maps& maps, const GemmPlan& p);

}  // namespace fathom::cuda
