// Products of many rows: bf16 and FP8 weights, plain, grouped by expert, and by head.
#include "kernels/cuda/linear/mma.cuh"

#include "kernels/cuda/linear/kernels.h"

namespace fathom::cuda {

void mma_product(Stream& s, const Product& p, const ProductPlan& chosen) {
  for (int i = 0; i < p.parts; ++i) {
    const Product::Part& to = p.part[i];
    if (p.rows == 0 || to.w.out == 0 || to.w.count == 0) continue;
    MmaPlan plan{p.x, p.x_scale, p.x_stride, to.w, to.y, to.y_type, to.y_stride, p.rows, p.offsets};
    plan.x_head = p.x_head, plan.w_head = p.w_head, plan.y_head = p.y_head;
    plan.heads = p.heads;
    const Kind kind = kind_of(p);
    if (kind == Kind::bf16) launch_mma<Kind::bf16>(s, plan, chosen.stages);
    if (kind == Kind::mixed) launch_mma<Kind::mixed>(s, plan, chosen.stages);
    if (kind == Kind::fp8) launch_mma<Kind::fp8>(s, plan, chosen.stages);
  }
}

}  // namespace fathom::cuda
