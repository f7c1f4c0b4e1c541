// Split-K with bf16 weights.
#include "kernels/cuda/sm90/splitk.cuh"

namespace fathom::cuda {

void splitk_bf16(Stream& s, const SplitKMaps& maps, const SplitKPlan& p, const SplitK& c) {
  dispatch_splitk<Kind::bf16>(s, maps, p, c);
}

}  // namespace fathom::cuda
