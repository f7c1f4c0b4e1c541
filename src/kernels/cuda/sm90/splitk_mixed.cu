// Split-K with FP8 weights and bf16 rows.
#include "kernels/cuda/sm90/splitk.cuh"

namespace fathom::cuda {

void splitk_mixed(Stream& s, const SplitKMaps& maps, const SplitKPlan& p, const SplitK& c) {
  dispatch_splitk<Kind::mixed>(s, maps, p, c);
}

}  // namespace fathom::cuda
