// The one list of all operations. What a backend must have, what it may have, and what traces them come from it.
#pragma once

#include "ops/collectives.h"
#include "ops/experts.h"
#include "ops/sampling.h"

// Those that every backend has.
// The formatter does not settle on these lines.
// clang-format off
#define FATHOM_OPERATIONS(X) \
  X(Embedding) X(GatherRows) X(Copy) X(Add) X(RmsNorm) X(SiluMul) X(Linear) X(GroupedLinear) X(HeadMatmul) \
  X(Dequantize) X(Rope) X(StoreLatent) X(AttendLatent) X(GatherLatent) X(AttendExpanded) X(Route) \
  X(GroupByExpert) X(Combine) X(Sample) X(MarkNotFinite) X(AllReduce) X(AddReduced) X(AllGather) \
  X(FillRandom)
// clang-format on

// Those that a backend may have for some cases. Each means a composition of the others, which its function in namespace
// ops spells out.
#define FATHOM_FUSED_OPERATIONS(X) X(NormLinear) X(LinearAdd) X(LatentAttention) X(GroupedSwiGlu) X(Experts) X(Advance)
