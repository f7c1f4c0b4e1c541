// Rows, elementwise operations, quantisation: GPU against CPU.
#include "kernels/cuda/rows/rows.h"
#include "backends/cuda/arrays.h"
#include "cuda/twin.h"
#include "quant/fp8_block.h"

namespace fathom::test {
namespace {

constexpr DType kActs[] = {DType::f32, DType::bf16};

TEST_F(CudaTest, EmbeddingAndGatherRows) {
  for (const DType type : kActs)
    for (const i64 n : {0, 1, 7, 300}) {
      Twin table(*gpu_, {50, 33}, type), ids(*gpu_, {n}, DType::i32), y(*gpu_, {n, 33}, DType::f32);
      table.normal(random_);
      ids.fill([](i64 i) { return static_cast<double>(i * 37 % 70); });  // some outside 10 .. 59
      cpu_.run(op::Embedding{y.host, table.host, ids.host, 10});
      gpu_->run(op::Embedding{y.device, table.device, ids.device, 10});
      y.expect_equal();
      Twin x(*gpu_, {70, 33}, type, 5), rows(*gpu_, {n, 33}, type);
      x.normal(random_);
      cpu_.run(op::GatherRows{rows.host, x.host, ids.host});
      gpu_->run(op::GatherRows{rows.device, x.device, ids.device});
      rows.expect_equal();
    }
}

TEST_F(CudaTest, CastAndAdd) {
  for (const DType from : kActs)
    for (const DType to : kActs) {
      Twin x(*gpu_, {3, 5, 17}, from, 3), y(*gpu_, {3, 5, 17}, to, 2);
      x.normal(random_);
      cpu_.run(op::Copy{y.host, x.host});
      gpu_->run(op::Copy{y.device, x.device});
      y.expect_equal();
      Twin a(*gpu_, {129, 65}, to), b(*gpu_, {129, 65}, from);
      a.normal(random_), b.normal(random_);
      cpu_.run(op::Add{a.host, b.host});
      gpu_->run(op::Add{a.device, b.device});
      a.expect_equal();
    }
}

TEST_F(CudaTest, RmsNormAndSiluMul) {
  for (const DType from : kActs)
    for (const DType to : kActs)
      for (const i64 rows : {0, 1, 5, 4096}) {
        const i64 d = rows == 4096 ? 96 : 1021;
        Twin x(*gpu_, {rows, d}, from, 7), w(*gpu_, {d}, DType::f32), y(*gpu_, {rows, d}, to, 1);
        x.normal(random_, 3), w.normal(random_);
        cpu_.run(op::RmsNorm{y.host, x.host, {w.host, 1e-6f}});
        gpu_->run(op::RmsNorm{y.device, x.device, {w.device, 1e-6f}});
        y.expect_same(2.02 * rounding_of(to) + 2e-5, 1e-30);
        Twin b(*gpu_, {rows, d}, from), z(*gpu_, {rows, d}, to);
        b.normal(random_);
        cpu_.run(op::SiluMul{z.host, x.host, b.host});
        gpu_->run(op::SiluMul{z.device, x.device, b.device});
        z.expect_same(2.02 * rounding_of(to) + 1e-6, 1e-30);
      }
}

// Rows that can be read 16 bytes at a time.
TEST_F(CudaTest, AlignedRows) {
  for (const i64 rows : {64, 65, 300})
    for (const i64 d : {8, 1032, 7168, 8200}) {
      Twin h(*gpu_, {rows, d}, DType::f32, 4), w(*gpu_, {d}, DType::f32), x(*gpu_, {rows, d}, DType::bf16, 8),
          y(*gpu_, {rows, d}, DType::bf16, 16), z(*gpu_, {rows, d}, DType::bf16);
      h.normal(random_, 3), w.normal(random_), x.normal(random_, 3);
      cpu_.run(op::RmsNorm{y.host, h.host, {w.host, 1e-6f}});
      gpu_->run(op::RmsNorm{y.device, h.device, {w.device, 1e-6f}});
      y.expect_same(2.02 * rounding_of(DType::bf16) + 2e-5, 1e-30);
      cpu_.run(op::SiluMul{z.host, x.host, y.host});
      y.push();
      gpu_->run(op::SiluMul{z.device, x.device, y.device});
      z.expect_same(2.02 * rounding_of(DType::bf16) + 1e-6, 1e-30);
    }
}

TEST_F(CudaTest, QuantizeAndDequantizeBitEqual) {
  cuda::Stream stream{nullptr, cuda::find_device(0)};
  for (const DType from : kActs)
    for (const bool power_of_two : {false, true}) {
      Twin x(*gpu_, {37, 384}, from, 16), codes(*gpu_, {37, 384}, DType::e4m3), scales(*gpu_, {37, 3}, DType::f32);
      x.fill([&, draw = std::normal_distribution<double>()](i64 i) mutable {
        return i % 11 == 0 ? 0.0 : draw(random_) * std::exp2(static_cast<double>(i / 384 - 18));
      });
      for (i64 t = 0; t < 37; ++t) {
        float row[384];
        for (i64 i = 0; i < 384; ++i) row[i] = static_cast<float>(get(x.host, t * x.host.stride(0) + i));
        quantize_activation(row, 384, power_of_two, codes.host.as<e4m3_bits>() + t * 384,
                            scales.host.as<float>() + t * 3);
      }
      gpu_->synchronize();  // the kernel is called on another stream
      cuda::quantize(stream, codes.device.as<e4m3_bits>(), scales.device.as<float>(), array_of(x.device), power_of_two);
      cudaDeviceSynchronize();
      codes.expect_equal();
      scales.expect_equal();
    }
  for (const DType to : kActs) {
    const WeightTwin w(*gpu_, random_, kFp8Block128, {300, 200});
    Twin y(*gpu_, {300, 200}, to);
    cpu_.run(op::Dequantize{y.host, w.host});
    gpu_->run(op::Dequantize{y.device, w.device});
    y.expect_equal();
  }
}

}  // namespace
}  // namespace fathom::test
