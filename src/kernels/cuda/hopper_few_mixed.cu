// Products of a few dozen rows: e4m3 weights, bf16 rows.
#include "kernels/cuda/hopper_few.cuh"

namespace fathom::cuda {

void few_mixed(cudaStream_t s, const FewMaps& maps, const FewPlan& p, const FewChoice& c) {
  dispatch_few<FewKind::mixed>(s, maps, p, c);
}

}  // namespace fathom::cuda
