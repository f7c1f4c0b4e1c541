// Products: format and shape choose the kernel.
#include "backends/cuda/code_rows.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/small.h"
#include "kernels/cuda/rows/rows.h"

namespace fathom {
namespace {

bool tile_fits(const Tensor& x, const Weight& w) {
  const i64 step = w.data.dtype() == DType::bf16 ? 8 : 16;
  return x.dim(0) > 0 && x.dtype() == DType::bf16 && w.data.dtype() != DType::f32 && w.in() % step == 0 &&
         aligned_rows(x) && reinterpret_cast<std::uintptr_t>(w.data.data()) % 16 == 0;
}

}  // namespace

// The values that quantised activations stand for, in scratch.
Tensor CudaBackend::rounded_to_fp8(const Tensor& x, const Weight& w) {
  const Tensor y(workspace(static_cast<std::size_t>(x.numel() * 2)), DType::bf16, x.shape(), x.device());
  cuda::round_to_fp8(stream(), y.data(), array_of(x), w.format->power_of_two());
  return y;
}

// Quantised activations, in scratch.
cuda::Operand CudaBackend::quantised(const Tensor& x, const Weight& w) {
  const auto rows =
      CodeRows::by_row(workspace(static_cast<std::size_t>(CodeRows::bytes(x.dim(0), x.dim(1)))), x.dim(0), x.dim(1));
  cuda::quantize(stream(), rows.codes, rows.scales, array_of(x), w.format->power_of_two());
  return {array_of(Tensor(rows.codes, DType::e4m3, x.shape(), x.device())), rows.scales};
}

void CudaBackend::run(const op::Linear& op) {
  const auto& [y, x, w, mode] = op;
  const bool few =
      small_rows(x.dim(0)) && small_weight(w, GemmMode::bf16) && x.dtype() == DType::bf16 && aligned_rows(x);
  if (wide_linear(y, x, w, {}, mode, false)) return;
  if (!few && tile_fits(x, w)) {
    const Tensor rounded = quantises(w, mode, x) ? rounded_to_fp8(x, w) : x;
    return cuda::linear_tile(stream(), array_of(y), array_of(rounded), matrix_of(w));
  }
  cuda::Operand operand{array_of(x), nullptr};
  if (quantises(w, mode, x)) operand = quantised(x, w);
  if (!few) return cuda::linear_simple(stream(), array_of(y), operand, matrix_of(w));
  cuda::GemvPlan p;
  p.part[0] = {matrix_of(w), y.data(), type_of(y.dtype()), y.stride(0)};
  p.tokens = static_cast<int>(x.dim(0));
  p.x = operand.x.data;
  p.x_stride = operand.x.stride[0];
  p.x_scale = operand.scale;
  gemv(stream(), p);
}

void CudaBackend::run(const op::GroupedLinear& op) {
  const auto& [y, x, w, offsets, mode] = op;
  if (wide_linear(y, x, w, offsets, mode, false)) return;
  if (tile_fits(x, w)) {
    const Tensor rounded = quantises(w, mode, x) ? rounded_to_fp8(x, w) : x;
    return cuda::grouped_linear_tile(stream(), array_of(y), array_of(rounded), matrix_of(w),
                                     offsets.as<std::int32_t>());
  }
  cuda::Operand operand{array_of(x), nullptr};
  if (quantises(w, mode, x)) operand = quantised(x, w);
  cuda::grouped_linear_simple(stream(), array_of(y), operand, matrix_of(w), offsets.as<std::int32_t>());
}

void CudaBackend::run(const op::HeadMatmul& op) {
  const auto& [y, x, w, transposed] = op;
  const bool bf16 = x.dtype() == DType::bf16 && w.dtype() == DType::bf16;
  const bool shared = x.stride(1) == 0;  // heads with one input: keys and values of cached rows
  if (!transposed && !shared && fused_rows(x.dim(0)) && bf16 && x.dim(2) % 8 == 0 && aligned_rows(x) &&
      x.stride(1) % 8 == 0) {
    cuda::GemvPlan p;
    p.part[0] = {
        {w.data(), nullptr, cuda::Type::bf16, false, 1, w.dim(1), w.dim(2)}, y.data(), type_of(y.dtype()), y.stride(0)};
    p.tokens = static_cast<int>(x.dim(0));
    p.heads = static_cast<int>(x.dim(1));
    p.x = x.data();
    p.x_stride = x.stride(0);
    p.x_head = x.stride(1);
    p.w_head = w.stride(0);
    p.y_head = y.stride(1);
    return gemv(stream(), p);
  }
  cuda::WideProduct p;
  p.x = x.data();
  p.x_stride = x.stride(0);
  p.x_head = x.stride(1);
  p.w = {w.data(), nullptr, cuda::Type::bf16, false, w.dim(0), y.dim(2), x.dim(2)};
  p.w_transposed = transposed;
  p.y = y.data();
  p.y_type = type_of(y.dtype());
  p.y_stride = y.stride(0);
  p.y_head = y.stride(1);
  p.rows = x.dim(0);
  if (bf16 && hopper_.encode != nullptr && w.stride(0) == w.dim(1) * w.dim(2) && cuda::gemm_fits(p))
    return cuda::gemm_run(stream(), hopper_, p);
  if (!transposed && bf16 && x.dim(2) % 8 == 0 && aligned_rows(x) && x.stride(1) % 8 == 0 && w.stride(0) % 8 == 0)
    return cuda::head_matmul_tile(stream(), array_of(y), array_of(x), array_of(w));
  cuda::head_matmul_simple(stream(), array_of(y), array_of(x), array_of(w), transposed);
}

}  // namespace fathom
