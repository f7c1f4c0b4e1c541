// Products of a few dozen rows: codes on both sides.
#include "kernels/cuda/hopper_few.cuh"

namespace fathom::cuda {

void few_fp8(cudaStream_t s, const FewMaps& maps, const FewPlan& p, const FewChoice& c) {
  dispatch_few<FewKind::fp8>(s, maps, p, c);
}

}  // namespace fathom::cuda
