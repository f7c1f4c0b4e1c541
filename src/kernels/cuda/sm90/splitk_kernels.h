// What the kernels of splitk.cuh are given, each kind compiled in a file of its own.
#pragma once

#include "kernels/cuda/linear/kind.h"
#include "kernels/cuda/sm90/splitk_plan.h"
#include "kernels/cuda/sm90/tile_map.h"

namespace fathom::cuda {

struct SplitKMaps {
  CUtensorMap w[3], x, scales;
};

// One matrix [out, in] of a product and where its y [tokens, out] goes.
struct SplitKPart {
  void* y;
  i64 y_stride;
  const float* w_scale;  // [ceil(out / 128), scale_columns]
  Type y_type;
  bool vector;  // rows of y can be written four numbers at a time
  int out, tiles;
};

struct SplitKPlan {
  SplitKPart part[3];
  int parts, tokens, outputs;  // of a tile
  int tiles, splits;           // of the outputs, of the inner dimension
  int steps, scale_columns;
  int stages, stage_bytes;
  int ring_bytes, bytes;  // of stages or, later, sums; of shared memory in all
  bool add;
};

void splitk_bf16(Stream& s, const SplitKMaps& maps, const SplitKPlan& p, const SplitK& c);
void splitk_mixed(Stream& s, const SplitKMaps& maps, const SplitKPlan& p, const SplitK& c);
void splitk_fp8(Stream& s, const SplitKMaps& maps, const SplitKPlan& p, const SplitK& c);

}  // namespace fathom::cuda
