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

std::optional<i64> CudaBackend::product_scratch(const cuda::Product& p) const {
  if (p.rows == 0) return 0;
  const cuda::ProductShape shape = cuda::shape_of(p);
  const cuda::Choice choice = cuda::choose(shape, gpu());
  return choice.kernel != nullptr ? cuda::scratch_bytes(shape, choice.plan) : std::optional<i64>();
}

void CudaBackend::product(const cuda::Product& p, void* scratch) {
  if (p.rows == 0) return;
  const cuda::ProductShape shape = cuda::shape_of(p);
  const cuda::Choice choice = cuda::choose(shape, gpu());
  CHECK(choice.kernel != nullptr && (scratch != nullptr || cuda::scratch_bytes(shape, choice.plan) == 0),
        "a product of {} rows of {} has no kernel or no scratch", p.rows, p.part[0].w.in);
  cuda::run(stream(), p, choice, scratch);
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
  return cuda::describe(cuda::choose(shape, gpu()));
}

namespace {

cuda::Product product_of(const op::Linear& op) { return product_of(op.y, op.x, op.w, op.mode); }

cuda::Product product_of(const op::GroupedLinear& op) {
  cuda::Product p = product_of(op.y, op.x, op.w, op.mode);
  p.offsets = op.offsets.as<std::int32_t>();
  return p;
}

cuda::Product product_of(const op::NormLinear& op) {
  cuda::Product p = product_of(op.ys, op.x.x, op.ws, op.mode);
  p.gain = op.x.norm.gain.as<float>();
  p.eps = op.x.norm.eps;
  return p;
}

cuda::Product product_of(const op::LinearAdd& op) {
  cuda::Product p = product_of(op.h, op.x, op.w, op.mode);
  p.add = true;
  return p;
}

// Gate and up with the same rows; up goes to `other`.
cuda::Product product_of(const op::GroupedSwiGlu& op, const Tensor& other) {
  cuda::Product p = product_of(std::array{op.y, other}, op.x, std::array{op.w1, op.w3}, op.mode);
  p.offsets = op.offsets.as<std::int32_t>();
  return p;
}
i64 bytes_of_up(const op::GroupedSwiGlu& op) { return aligned(op.y.numel() * 2); }

}  // namespace

i64 CudaBackend::scratch_bytes(const op::Linear& op) const { return product_scratch(product_of(op)).value_or(0); }
i64 CudaBackend::scratch_bytes(const op::GroupedLinear& op) const {
  return product_scratch(product_of(op)).value_or(0);
}
void CudaBackend::run(const op::Linear& op) { product(product_of(op), workspace(scratch_bytes(op))); }
void CudaBackend::run(const op::GroupedLinear& op) { product(product_of(op), workspace(scratch_bytes(op))); }

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

std::optional<i64> CudaBackend::scratch_bytes(const op::NormLinear& op) const {
  for (const Weight& w : op.ws)
    if (op.ws.size() > cuda::kMostParts || w.format != op.ws[0].format) return std::nullopt;
  return product_scratch(product_of(op));
}
void CudaBackend::run(const op::NormLinear& op) { product(product_of(op), workspace(*scratch_bytes(op))); }

std::optional<i64> CudaBackend::scratch_bytes(const op::LinearAdd& op) const { return product_scratch(product_of(op)); }
void CudaBackend::run(const op::LinearAdd& op) { product(product_of(op), workspace(*scratch_bytes(op))); }

std::optional<i64> CudaBackend::scratch_bytes(const op::GroupedSwiGlu& op) const {
  if (op.w1.format != op.w3.format || op.y.dtype() != DType::bf16) return std::nullopt;
  const std::optional<i64> bytes = product_scratch(product_of(op, op.y));
  return bytes ? *bytes + bytes_of_up(op) : bytes;
}
void CudaBackend::run(const op::GroupedSwiGlu& op) {
  if (op.x.dim(0) == 0) return;
  auto* scratch = static_cast<std::byte*>(workspace(*scratch_bytes(op)));
  const Tensor other(scratch, DType::bf16, op.y.shape(), device());
  product(product_of(op, other), scratch + bytes_of_up(op));
  run(op::SiluMul{op.y, op.y, other});
}

}  // namespace fathom
