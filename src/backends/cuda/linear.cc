// Products: each is described once, and the chooser of kernels/cuda/linear takes the kernel.
#include <array>

#include "backends/cuda/arrays.h"
#include "backends/cuda/cuda_backend.h"
#include "kernels/cuda/linear/chooser.h"

namespace fathom {
namespace {

// ys[i] = x ws[i]^T; the weights have one format.
cuda::Product product_of(std::span<const Tensor> ys, const Tensor& x, std::span<const Weight> ws, GemmMode mode) {
  cuda::Product p;
  p.parts = static_cast<int>(ys.size());
  for (std::size_t i = 0; i < ys.size(); ++i)
    p.part[i] = {matrix_of(ws[i]), ys[i].data(), type_of(ys[i].dtype()), ys[i].stride(0)};
  p.rows = x.dim(0);
  p.x = x.data();
  p.x_type = type_of(x.dtype());
  p.x_stride = x.stride(0);
  p.quantise = quantises(ws[0], mode, x);
  return p;
}
cuda::Product product_of(const Tensor& y, const Tensor& x, const Weight& w, GemmMode mode) {
  return product_of({&y, 1}, x, {&w, 1}, mode);
}

}  // namespace

bool CudaBackend::product(const cuda::Product& p) {
  if (p.rows == 0) return true;
  const cuda::ProductShape shape = cuda::shape_of(p);
  const cuda::Choice choice = cuda::choose(shape, gpu_);
  if (choice.kernel == nullptr) return false;
  const i64 bytes = cuda::scratch_bytes(shape, choice.plan);
  cuda::run(stream(), gpu_, p, choice, bytes > 0 ? workspace(static_cast<std::size_t>(bytes)) : nullptr);
  return true;
}

void CudaBackend::linear(const Tensor& y, const Tensor& x, const Weight& w, GemmMode mode) {
  product(product_of(y, x, w, mode));
}

void CudaBackend::grouped_linear(const Tensor& y, const Tensor& x, const Weight& w, const Tensor& offsets,
                                 GemmMode mode) {
  cuda::Product p = product_of(y, x, w, mode);
  p.offsets = offsets.as<std::int32_t>();
  product(p);
}

void CudaBackend::head_matmul(const Tensor& y, const Tensor& x, const Tensor& w) {
  cuda::Product p = product_of(y, x, {w, {}, &kBf16}, GemmMode::bf16);
  p.heads = static_cast<int>(x.dim(1));
  p.x_head = x.stride(1), p.w_head = w.stride(0), p.y_head = y.stride(1);
  product(p);
}

bool CudaBackend::norm_linear(std::span<const Tensor> ys, const Tensor& x, const Tensor& gain, float eps,
                              std::span<const Weight> ws, GemmMode mode) {
  if (ys.size() > cuda::kMostParts) return false;
  for (const Weight& w : ws)
    if (w.format != ws[0].format) return false;
  cuda::Product p = product_of(ys, x, ws, mode);
  p.gain = gain.as<float>();
  p.eps = eps;
  return product(p);
}

bool CudaBackend::linear_add_(const Tensor& h, const Tensor& x, const Weight& w, GemmMode mode) {
  cuda::Product p = product_of(h, x, w, mode);
  p.add = true;
  return product(p);
}

bool CudaBackend::grouped_swiglu(const Tensor& y, const Tensor& x, const Weight& w1, const Weight& w3,
                                 const Tensor& offsets, GemmMode mode) {
  if (w1.format != w3.format || y.dtype() != DType::bf16) return false;
  if (x.dim(0) == 0) return true;
  const Tensor other(nullptr, DType::bf16, y.shape(), device());
  cuda::Product p = product_of(std::array{y, other}, x, std::array{w1, w3}, mode);
  p.offsets = offsets.as<std::int32_t>();
  const cuda::ProductShape shape = cuda::shape_of(p);
  const cuda::Choice choice = cuda::choose(shape, gpu_);
  const i64 bytes = aligned(y.numel() * 2);
  auto* scratch =
      static_cast<std::byte*>(workspace(static_cast<std::size_t>(bytes + cuda::scratch_bytes(shape, choice.plan))));
  p.part[1].y = scratch;
  cuda::run(stream(), gpu_, p, choice, scratch + bytes);
  silu_mul(y, y, Tensor(scratch, DType::bf16, y.shape(), device()));
  return true;
}

}  // namespace fathom
