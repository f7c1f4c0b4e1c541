// Products of many rows: bf16 and FP8 weights, plain, grouped by expert, and by head.
#include "kernels/cuda/linear/mma.cuh"

#include "kernels/cuda/linear/kernels.h"

namespace fathom::cuda {

void mma_product(cudaStream_t s, const Device&, const Product& p, const ProductPlan&) {
  for (int i = 0; i < p.parts; ++i) {
    const Product::Part& to = p.part[i];
    if (p.rows == 0 || to.w.out == 0 || to.w.count == 0) continue;
    MmaPlan plan{p.x, p.x_stride, to.w, to.y, to.y_type, to.y_stride, p.rows, p.offsets};
    plan.x_head = p.x_head, plan.w_head = p.w_head, plan.y_head = p.y_head;
    plan.heads = p.heads;
    to.w.type == Type::e4m3 ? launch_mma<true>(s, plan) : launch_mma<false>(s, plan);
  }
}

}  // namespace fathom::cuda
