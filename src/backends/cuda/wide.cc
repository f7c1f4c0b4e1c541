// Products of many rows on Hopper, and of a few dozen. With quantised activations, products of one input share its
// codes.
#include "backends/cuda/code_rows.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/small.h"
#include "kernels/cuda/rows/rows.h"
#include "kernels/cuda/sm90/splitk_plan.h"

namespace fathom {
namespace {

i64 code_bytes(const Tensor& x) { return CodeRows::bytes(x.dim(0), x.dim(1)); }

bool wide_product(cuda::WideProduct& p, const Tensor& y, const Tensor& x, const Weight& w, const Tensor& offsets) {
  if (x.dtype() != DType::bf16 || w.data.dtype() == DType::f32 || x.dim(0) == 0) return false;
  p.x = x.data();
  p.x_stride = x.stride(0);
  p.w = matrix_of(w);
  p.y = y.data();
  p.y_type = type_of(y.dtype());
  p.y_stride = y.stride(0);
  p.rows = x.dim(0);
  p.offsets = offsets.defined() ? offsets.as<std::int32_t>() : nullptr;
  return cuda::gemm_fits(p);
}

void take_codes(cuda::WideProduct& p, const Tensor& x, const CodeRows& rows) {
  p.x = rows.codes;
  p.x_stride = x.dim(1);
  p.x_scale = rows.scales;
  p.x_scale_stride = rows.stride;
}

void quantize_rows(cudaStream_t s, const CodeRows& rows, const Tensor& x, const Weight& w) {
  cuda::quantize_by_column(s, rows.codes, rows.scales, rows.stride, array_of(x), w.format->power_of_two());
}

bool few_products(const std::vector<cuda::WideProduct>& all) {
  const int count = static_cast<int>(all.size());
  return cuda::splitk_fits(all.data(), count) && cuda::splitk_pays(cuda::splitk_shape(all.data(), count));
}

// Whether the kernels of small.h are left what these products are.
bool left_to_small(const std::vector<cuda::WideProduct>& all) {
  i64 outputs = 0;
  for (const cuda::WideProduct& p : all) outputs += p.w.out;
  return !few_products(all) && all[0].offsets == nullptr && dense_rows(all[0].rows, outputs);
}

}  // namespace

// Products of the same rows, which `wide_fits` of each.
void CudaBackend::run_products(const std::vector<cuda::WideProduct>& all) {
  if (few_products(all)) {
    const int count = static_cast<int>(all.size());
    const cuda::SplitK choice = cuda::choose_splitk(cuda::splitk_shape(all.data(), count), hopper_.multiprocessors);
    return cuda::splitk_run(stream(), hopper_, all.data(), count, choice);
  }
  for (const cuda::WideProduct& p : all) cuda::gemm_run(stream(), hopper_, p);
}

bool CudaBackend::wide_linear(const Tensor& y, const Tensor& x, const Weight& w, const Tensor& offsets, GemmMode mode,
                              bool add) {
  std::vector<cuda::WideProduct> all(1);
  if (hopper_.encode == nullptr || !wide_product(all[0], y, x, w, offsets)) return false;
  all[0].add = add;
  const bool codes = quantises(w, mode, x);
  CodeRows rows;
  if (codes) {
    rows = CodeRows::by_column(workspace(static_cast<std::size_t>(code_bytes(x))), x.dim(0), x.dim(1));
    take_codes(all[0], x, rows);
  }
  if (left_to_small(all)) return false;
  if (codes) quantize_rows(stream(), rows, x, w);
  run_products(all);
  return true;
}

bool CudaBackend::wide_norm_linear(const op::NormLinear& op) {
  const std::span<const Weight> ws = op.ws;
  const Tensor& x = op.x.x;
  if (hopper_.encode == nullptr || x.dim(0) == 0) return false;
  const i64 bytes = aligned(x.numel() * 2);
  Tensor normed(nullptr, DType::bf16, x.shape(), device());
  bool codes = false;
  for (const Weight& w : ws) {
    if (w.format != ws[0].format) return false;
    codes = codes || quantises(w, op.mode, normed);
  }
  auto* scratch = static_cast<std::byte*>(workspace(static_cast<std::size_t>(bytes + (codes ? code_bytes(x) : 0))));
  normed = Tensor(scratch, DType::bf16, x.shape(), device());
  const auto rows = CodeRows::by_column(scratch + bytes, x.dim(0), x.dim(1));
  std::vector<cuda::WideProduct> all(ws.size());
  for (std::size_t i = 0; i < ws.size(); ++i) {
    if (!wide_product(all[i], op.ys[i], normed, ws[i], {})) return false;
    if (codes) take_codes(all[i], normed, rows);
  }
  if (left_to_small(all)) return false;
  run(op::RmsNorm{normed, x, op.x.norm});
  if (codes) quantize_rows(stream(), rows, normed, ws[0]);
  run_products(all);
  return true;
}

// The shared experts' second product of a few dozen tokens; for more it made the experts of 671B slower.
bool CudaBackend::few_shared(const cuda::MoeArgs& p) {
  if (hopper_.encode == nullptr || p.quantise || !small_rows(p.tokens)) return false;
  std::vector<cuda::WideProduct> all(1);
  all[0].x = p.shared_hidden;
  all[0].x_stride = p.shared_w2.in;
  all[0].w = p.shared_w2;
  all[0].y = p.y;
  all[0].y_type = cuda::Type::f32;
  all[0].y_stride = p.y_stride;
  all[0].rows = p.tokens;
  all[0].add = true;
  if (!few_products(all)) return false;
  run_products(all);
  return true;
}

bool CudaBackend::try_run(const op::GroupedSwiGlu& op) {
  const auto& [y, x, w1, w3, offsets, mode] = op;
  cuda::WideProduct gate, up;
  if (hopper_.encode == nullptr || w1.format != w3.format || y.dtype() != DType::bf16) return false;
  const bool codes = quantises(w1, mode, x);
  const i64 bytes = aligned(y.numel() * 2);
  auto* scratch = static_cast<std::byte*>(workspace(static_cast<std::size_t>(bytes + (codes ? code_bytes(x) : 0))));
  const Tensor other(scratch, DType::bf16, y.shape(), device());
  if (!wide_product(gate, y, x, w1, offsets) || !wide_product(up, other, x, w3, offsets)) return false;
  if (codes) {
    const auto rows = CodeRows::by_column(scratch + bytes, x.dim(0), x.dim(1));
    quantize_rows(stream(), rows, x, w1);
    take_codes(gate, x, rows);
    take_codes(up, x, rows);
  }
  cuda::gemm_run(stream(), hopper_, gate);
  cuda::gemm_run(stream(), hopper_, up);
  run(op::SiluMul{y, y, other});
  return true;
}

}  // namespace fathom
