// The reference's own kernels on the GPU: act_quant and weight_dequant bit for bit, fp8_gemm within its rounding.
#include "backends/cuda/arrays.h"
#include "cuda/twin.h"
#include "kernels/cuda/rows/rows.h"
#include "quant/fp8_block.h"
#include "support/safetensors.h"

namespace fathom::test {
namespace {

class KernelsGolden : public CudaTest {
 protected:
  // A tensor of the file, on the GPU, read as this type.
  Tensor on_gpu(const std::string& name, DType dtype) {
    const Tensor host = file_[name];
    storages_.push_back(gpu_->allocate(static_cast<std::size_t>(host.bytes())));
    const Tensor x(storages_.back().data(), dtype, host.shape(), gpu_->device());
    gpu_->upload(x, host.data());
    return x;
  }
  Tensor empty(const Shape& shape, DType dtype) {
    storages_.push_back(gpu_->allocate(static_cast<std::size_t>(shape.numel() * size_of(dtype))));
    return Tensor(storages_.back().data(), dtype, shape, gpu_->device());
  }
  std::vector<std::byte> bytes(const Tensor& x) {
    std::vector<std::byte> all(static_cast<std::size_t>(x.bytes()));
    gpu_->download(all.data(), x);
    return all;
  }
  std::vector<std::byte> expected(const std::string& name) const {
    const Tensor x = file_[name];
    const auto* first = static_cast<const std::byte*>(x.data());
    return {first, first + x.bytes()};
  }
  std::vector<double> numbers(const Tensor& x) {
    std::vector<std::byte> all = bytes(x);
    return values(Tensor(all.data(), x.dtype(), x.shape()));
  }

  const Safetensors file_{data_folder() / "golden/golden/kernels.safetensors"};
  std::vector<Storage> storages_;
};

double distance(const std::vector<double>& x, const std::vector<double>& y) {
  double sum = 0, norm = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    sum += (x[i] - y[i]) * (x[i] - y[i]);
    norm += y[i] * y[i];
  }
  return std::sqrt(sum / norm);
}

TEST_F(KernelsGolden, ActQuantIsBitEqual) {
  cuda::Stream stream{nullptr, cuda::find_device(0)};
  const Tensor x = on_gpu("act.x", DType::bf16);
  for (const bool power_of_two : {false, true}) {
    const std::string kind = power_of_two ? "ue8m0" : "f32";
    const Tensor codes = empty(x.shape(), DType::e4m3), scales = empty({x.dim(0), x.dim(1) / 128}, DType::f32);
    gpu_->synchronize();  // the kernel is called on another stream
    cuda::quantize(stream, codes.as<e4m3_bits>(), scales.as<float>(), array_of(x), power_of_two);
    cudaDeviceSynchronize();
    EXPECT_EQ(bytes(codes), expected("act.q." + kind)) << kind;
    EXPECT_EQ(bytes(scales), expected("act.s." + kind)) << kind;
  }
}

TEST_F(KernelsGolden, WeightDequantIsBitEqual) {
  const Tensor w = on_gpu("deq.w", DType::e4m3), y = empty(w.shape(), DType::bf16);
  gpu_->run(op::Dequantize{y, {w, on_gpu("deq.s", DType::f32), &kFp8Block128}});
  EXPECT_EQ(bytes(y), expected("deq.y"));
}

// Against the product of the quantised operands in float64; 33 rows, and the first 1 and 8 of them, so that every
// kernel is reached.
TEST_F(KernelsGolden, Fp8GemmIsWithinItsRounding) {
  const Tensor a = on_gpu("gemm.a", DType::bf16);
  const Weight w{on_gpu("gemm.qw", DType::e4m3), on_gpu("gemm.sw", DType::f32), &kFp8Block128};
  const Tensor exact_all = file_["gemm.exact"], reference_all = file_["gemm.y"];
  for (const i64 rows : {1, 8, 33}) {
    const auto exact = values(exact_all.narrow(0, 0, rows)), reference = values(reference_all.narrow(0, 0, rows));
    for (const DType type : {DType::f32, DType::bf16}) {
      const Tensor y = empty({rows, exact_all.dim(1)}, type);
      gpu_->run(op::Linear{y, a.narrow(0, 0, rows), w, GemmMode::fp8});
      const double ours = distance(numbers(y), exact), theirs = distance(reference, exact);
      std::printf("fp8_gemm of %lld rows in %s: error %.2e, the reference's in bf16 %.2e\n",
                  static_cast<long long>(rows), std::string(name_of(type)).c_str(), ours, theirs);
      // Codes times codes are exact; the reference scales each 128 in float32, and so is the sum here. Hopper's tensor
      // cores add products of codes with 13 bits below the largest.
      const double exact_sums = rows > 1 && hopper_ ? 0x1p-12 : 2e-6;
      EXPECT_LT(ours, type == DType::f32 ? exact_sums : 1.05 * theirs) << rows;
    }
  }
}

}  // namespace
}  // namespace fathom::test
