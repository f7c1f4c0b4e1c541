// Products: each is described once, and the chooser of kernels/cuda/linear takes the kernel.
#include <algorithm>
#include <array>

#include "backends/cuda/arrays.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/decode.h"
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

std::string CudaBackend::explain(const ProductCase& product) const {
  if (product.experts > 0 && fused_rows(product.tokens)) return "moe: experts of few tokens";
  cuda::ProductShape shape;
  shape.rows = product.rows;
  shape.in = product.in;
  shape.parts = static_cast<int>(product.outs.size());
  std::copy(product.outs.begin(), product.outs.end(), shape.out);
  shape.groups = product.experts;
  shape.w = type_of(product.format->element());
  shape.norm = product.norm;
  shape.x = product.norm ? cuda::Type::f32 : cuda::Type::bf16;
  shape.quantise = product.mode == GemmMode::fp8 && product.format->has_scale();
  shape.add = shape.y_f32 = product.add;
  shape.x_aligned = shape.w_aligned = product.in % 16 == 0;
  return cuda::describe(cuda::choose(shape, gpu_));
}

void CudaBackend::run(const op::Linear& op) { product(product_of(op.y, op.x, op.w, op.mode)); }

void CudaBackend::run(const op::GroupedLinear& op) {
  cuda::Product p = product_of(op.y, op.x, op.w, op.mode);
  p.offsets = op.offsets.as<std::int32_t>();
  product(p);
}

void CudaBackend::run(const op::HeadMatmul& op) {
  const auto& [y, x, w, transposed] = op;
  cuda::Product p;
  p.part[0].w = {w.data(), nullptr, type_of(w.dtype()), false, w.dim(0), y.dim(2), x.dim(2)};
  p.part[0].y = y.data(), p.part[0].y_type = type_of(y.dtype()), p.part[0].y_stride = y.stride(0);
  p.rows = x.dim(0);
  p.x = x.data(), p.x_type = type_of(x.dtype()), p.x_stride = x.stride(0);
  p.heads = static_cast<int>(x.dim(1));
  p.x_head = x.stride(1), p.w_head = w.stride(0), p.y_head = y.stride(1);
  p.w_transposed = transposed;
  product(p);
}

bool CudaBackend::try_run(const op::NormLinear& op) {
  for (const Weight& w : op.ws)
    if (op.ws.size() > cuda::kMostParts || w.format != op.ws[0].format) return false;
  cuda::Product p = product_of(op.ys, op.x.x, op.ws, op.mode);
  p.gain = op.x.norm.gain.as<float>();
  p.eps = op.x.norm.eps;
  return product(p);
}

bool CudaBackend::try_run(const op::LinearAdd& op) {
  cuda::Product p = product_of(op.h, op.x, op.w, op.mode);
  p.add = true;
  return product(p);
}

bool CudaBackend::try_run(const op::GroupedSwiGlu& op) {
  const auto& [y, x, w1, w3, offsets, mode] = op;
  if (w1.format != w3.format || y.dtype() != DType::bf16) return false;
  if (x.dim(0) == 0) return true;
  Tensor other(nullptr, DType::bf16, y.shape(), device());
  cuda::Product p = product_of(std::array{y, other}, x, std::array{w1, w3}, mode);
  p.offsets = offsets.as<std::int32_t>();
  const cuda::ProductShape shape = cuda::shape_of(p);
  const cuda::Choice choice = cuda::choose(shape, gpu_);
  const i64 bytes = aligned(y.numel() * 2) + cuda::scratch_bytes(shape, choice.plan);
  auto* scratch = static_cast<std::byte*>(workspace(static_cast<std::size_t>(bytes)));
  p.part[1].y = scratch;
  cuda::run(stream(), gpu_, p, choice, scratch + aligned(y.numel() * 2));
  other = Tensor(scratch, DType::bf16, y.shape(), device());
  run(op::SiluMul{y, y, other});
  return true;
}

}  // namespace fathom
