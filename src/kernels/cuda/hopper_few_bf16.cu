// Products of a few dozen rows: bf16 weights.
#include "kernels/cuda/hopper_few.cuh"

namespace fathom::cuda {

void few_bf16(cudaStream_t s, const FewMaps& maps, const FewPlan& p, const FewChoice& c) {
  dispatch_few<FewKind::bf16>(s, maps, p, c);
}

}  // namespace fathom::cuda
