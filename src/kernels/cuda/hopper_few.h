// What the kernels of hopper_few.cuh are given, each kind compiled in a file of its own.
#pragma once

#include "kernels/cuda/hopper.h"
#include "kernels/cuda/hopper_few_plan.h"

namespace fathom::cuda {

// bf16 on both sides; e4m3 weights with bf16 tokens; codes with codes.
enum class FewKind : std::uint8_t { bf16, mixed, fp8 };

struct FewMaps {
  CUtensorMap w[3], x, scales;
};

// One matrix [out, in] of a product and where its y [tokens, out] goes.
struct FewPart {
  void* y;
  i64 y_stride;
  const float* w_scale;  // [ceil(out / 128), scale_columns]
  Type y_type;
  bool vector;  // rows of y can be written four numbers at a time
  int out, tiles;
};

struct FewPlan {
  FewPart part[3];
  int parts, tokens, outputs;  // of a tile
  int tiles, splits;           // of the outputs, of the inner dimension
  int steps, scale_columns;
  int stages, stage_bytes;
  int ring_bytes, bytes;  // of stages or, later, sums; of shared memory in all
  bool add;
};

void few_bf16(cudaStream_t s, const FewMaps& maps, const FewPlan& p, const FewChoice& c);
void few_mixed(cudaStream_t s, const FewMaps& maps, const FewPlan& p, const FewChoice& c);
void few_fp8(cudaStream_t s, const FewMaps& maps, const FewPlan& p, const FewChoice& c);

}  // namespace fathom::cuda
