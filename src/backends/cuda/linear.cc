// Products: format and shape choose the kernel.
#include "backends/cuda/arrays.h"
#include "backends/cuda/cuda_backend.h"
#include "quant/fp8_block.h"

namespace fathom {
namespace {

// Quantised activations in scratch: codes [N, in], then scales [N, in / 128].
cuda::Operand quantised(cudaStream_t s, void* scratch, const Tensor& x, bool power_of_two) {
  auto* codes = static_cast<std::uint8_t*>(scratch);
  auto* scales = reinterpret_cast<float*>(codes + (x.numel() + 255) / 256 * 256);
  cuda::quantize(s, codes, scales, array_of(x), power_of_two);
  return {array_of(Tensor(codes, DType::e4m3, x.shape(), x.device())), scales};
}

std::size_t quantised_bytes(const Tensor& x) {
  return static_cast<std::size_t>((x.numel() + 255) / 256 * 256 + x.numel() / kFp8Block * 4);
}

bool quantises(const Weight& w, GemmMode mode, const Tensor& x) {
  if (mode != GemmMode::fp8 || !w.format->has_scale()) return false;
  CHECK(x.dim(1) % kFp8Block == 0, "Last dimension size must be divisible by block_size (block_size={}), it is {}",
        kFp8Block, x.dim(1));
  return true;
}

}  // namespace

void CudaBackend::linear(const Tensor& y, const Tensor& x, const Weight& w, GemmMode mode) {
  cuda::Operand operand{array_of(x), nullptr};
  if (quantises(w, mode, x)) operand = quantised(stream(), workspace(quantised_bytes(x)), x, w.format->power_of_two);
  cuda::linear_simple(stream(), array_of(y), operand, matrix_of(w));
}

void CudaBackend::grouped_linear(const Tensor& y, const Tensor& x, const Weight& w, const Tensor& offsets,
                                 GemmMode mode) {
  cuda::Operand operand{array_of(x), nullptr};
  if (quantises(w, mode, x)) operand = quantised(stream(), workspace(quantised_bytes(x)), x, w.format->power_of_two);
  cuda::grouped_linear_simple(stream(), array_of(y), operand, matrix_of(w), offsets.as<std::int32_t>());
}

void CudaBackend::head_matmul(const Tensor& y, const Tensor& x, const Tensor& w) {
  cuda::head_matmul_simple(stream(), array_of(y), array_of(x), array_of(w));
}

}  // namespace fathom
