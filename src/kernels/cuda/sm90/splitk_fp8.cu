// Split-K with codes on both sides.
#include "kernels/cuda/sm90/splitk.cuh"

namespace fathom::cuda {

void splitk_fp8(Stream& s, const SplitKMaps& maps, const SplitKPlan& p, const SplitK& c) {
  dispatch_splitk<Kind::fp8>(s, maps, p, c);
}

}  // namespace fathom::cuda
