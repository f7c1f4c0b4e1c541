// GEMV with bf16 weights; what GEMV is given.
#include "kernels/cuda/linear/gemv.cuh"
#include "kernels/cuda/linear/kernels.h"

namespace fathom::cuda {
namespace {

void gemv_bf16(Stream& s, const GemvPlan& p) {
  p.gain != nullptr ? dispatch_gemv<false, Rows::shared>(s, p) : dispatch_gemv<false, Rows::bf16>(s, p);
}

}  // namespace

void gemv_product(Stream& s, const Product& p, const ProductPlan&) {
  GemvPlan plan;
  for (int i = 0; i < p.parts; ++i) plan.part[i] = p.part[i];
  plan.parts = p.parts;
  plan.tokens = static_cast<int>(p.rows);
  plan.heads = p.heads;
  plan.x = p.x;
  plan.x_stride = p.x_stride;
  plan.x_head = p.x_head, plan.w_head = p.w_head, plan.y_head = p.y_head;
  plan.x_scale = p.x_scale;
  plan.gain = p.gain;
  plan.eps = p.eps;
  plan.quantise = p.quantise;
  plan.add = p.add;
  (p.part[0].w.type == Type::e4m3 ? gemv_fp8 : gemv_bf16)(s, plan);
}

bool input_fits_shared(const Device& device, i64 rows, i64 in) {
  constexpr std::size_t kKept = 20u << 10;  // for the sums of warps, and what a kernel has besides
  return rows <= InputPlace::kMostPrepared &&
         InputPlace::bytes(rows, in) + kKept <= static_cast<std::size_t>(device.shared_bytes);
}

}  // namespace fathom::cuda
