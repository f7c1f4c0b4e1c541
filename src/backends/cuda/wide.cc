// Products of many rows on Hopper. With quantised activations, products of one input share its codes.
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/small.h"

namespace fathom {
namespace {

i64 scale_stride(const Tensor& x) { return (x.dim(0) + 3) / 4 * 4; }

// Bytes of x's codes and their scales.
i64 code_bytes(const Tensor& x) { return aligned(x.numel()) + aligned(scale_stride(x) * (x.dim(1) / kFp8Block) * 4); }

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
  return cuda::wide_fits(p);
}

// The product takes codes [N, in] and scales [in / 128, stride] at `codes`.
void take_codes(cuda::WideProduct& p, const Tensor& x, std::byte* codes) {
  p.x = codes;
  p.x_stride = x.dim(1);
  p.x_scale = reinterpret_cast<const float*>(codes + aligned(x.numel()));
  p.x_scale_stride = scale_stride(x);
}

}  // namespace

void CudaBackend::quantize_rows(std::byte* codes, const Tensor& x, const Weight& w) {
  cuda::quantize_wide(stream(), reinterpret_cast<std::uint8_t*>(codes),
                      reinterpret_cast<float*>(codes + aligned(x.numel())), scale_stride(x), array_of(x),
                      w.format->power_of_two);
}

bool CudaBackend::wide_linear(const Tensor& y, const Tensor& x, const Weight& w, const Tensor& offsets, GemmMode mode,
                              bool add) {
  cuda::WideProduct p;
  if (hopper_.encode == nullptr || !wide_product(p, y, x, w, offsets)) return false;
  p.add = add;
  if (quantises(w, mode, x)) {
    auto* codes = static_cast<std::byte*>(workspace(static_cast<std::size_t>(code_bytes(x))));
    quantize_rows(codes, x, w);
    take_codes(p, x, codes);
  }
  cuda::wide(stream(), hopper_, p);
  return true;
}

bool CudaBackend::wide_norm_linear(std::span<const Tensor> ys, const Tensor& x, const Tensor& gain, float eps,
                                   std::span<const Weight> ws, GemmMode mode) {
  if (hopper_.encode == nullptr || x.dim(0) == 0) return false;
  const i64 bytes = aligned(x.numel() * 2);
  Tensor normed(nullptr, DType::bf16, x.shape(), device());
  bool codes = false;
  for (const Weight& w : ws) {
    if (w.format != ws[0].format) return false;
    codes = codes || quantises(w, mode, normed);
  }
  auto* scratch = static_cast<std::byte*>(workspace(static_cast<std::size_t>(bytes + (codes ? code_bytes(x) : 0))));
  normed = Tensor(scratch, DType::bf16, x.shape(), device());
  std::vector<cuda::WideProduct> products(ws.size());
  for (std::size_t i = 0; i < ws.size(); ++i) {
    if (!wide_product(products[i], ys[i], normed, ws[i], {})) return false;
    if (codes) take_codes(products[i], normed, scratch + bytes);
  }
  rms_norm(normed, x, gain, eps);
  if (codes) quantize_rows(scratch + bytes, normed, ws[0]);
  for (const cuda::WideProduct& p : products) cuda::wide(stream(), hopper_, p);
  return true;
}

bool CudaBackend::grouped_swiglu(const Tensor& y, const Tensor& x, const Weight& w1, const Weight& w3,
                                 const Tensor& offsets, GemmMode mode) {
  cuda::WideProduct gate, up;
  if (hopper_.encode == nullptr || w1.format != w3.format || y.dtype() != DType::bf16) return false;
  const bool codes = quantises(w1, mode, x);
  const i64 bytes = aligned(y.numel() * 2);
  auto* scratch = static_cast<std::byte*>(workspace(static_cast<std::size_t>(bytes + (codes ? code_bytes(x) : 0))));
  const Tensor other(scratch, DType::bf16, y.shape(), device());
  if (!wide_product(gate, y, x, w1, offsets) || !wide_product(up, other, x, w3, offsets)) return false;
  if (codes) {
    quantize_rows(scratch + bytes, x, w1);
    take_codes(gate, x, scratch + bytes);
    take_codes(up, x, scratch + bytes);
  }
  cuda::wide(stream(), hopper_, gate);
  cuda::wide(stream(), hopper_, up);
  silu_mul(y, y, other);
  return true;
}

}  // namespace fathom
