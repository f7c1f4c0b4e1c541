// Products with weights in a format that no backend has kernels for: slab by slab and expert by expert they are those
// of the dequantised numbers.
#include "ops/dequantized.h"

#include <gtest/gtest.h>

#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "ops/trace.h"

namespace fathom {
namespace {

// Bytes, a float32 scale for three rows.
class ThreeRows final : public Format {
 public:
  ThreeRows()
      : Format({.name = "three_rows", .element = DType::u8, .bits = 8, .group_rows = 3, .group_cols = 1 << 20}) {}
  void quantize(const float*, i64, i64, void*, void*, void*) const override {}
  void dequantize(const void* data, const void* scale, const void*, i64 out, i64 in, float* y) const override {
    for (i64 i = 0; i < out * in; ++i)
      y[i] = (static_cast<const std::uint8_t*>(data)[i] - 128.0f) * static_cast<const float*>(scale)[i / in / 3];
  }
};

const ThreeRows kThreeRows;

class DequantizedTest : public testing::Test {
 protected:
  // n matrices [out, in].
  Weight make(i64 n, i64 out, i64 in) {
    data_.resize(static_cast<std::size_t>(n * out * in));
    scale_.resize(static_cast<std::size_t>(n * ((out + 2) / 3)));
    for (std::size_t i = 0; i < data_.size(); ++i) data_[i] = static_cast<std::uint8_t>(i * 2654435761u >> 13);
    for (std::size_t i = 0; i < scale_.size(); ++i) scale_[i] = static_cast<float>(i % 17 + 1) / 1024;
    Weight w{Tensor(data_.data(), DType::u8, {n, out, in}), Tensor(scale_.data(), DType::f32, {n, (out + 2) / 3, 1}),
             &kThreeRows};
    return n == 1 ? w[0] : w;
  }
  // float32 [rows, columns] with some numbers.
  Tensor numbers(i64 rows, i64 columns) {
    const Tensor x = memory_.empty({rows, columns}, DType::f32);
    for (i64 i = 0; i < x.numel(); ++i) x.as<float>()[i] = static_cast<float>(i * 37 % 101 - 50) / 64;
    return x;
  }
  static std::vector<float> values(const Tensor& x) { return {x.as<float>(), x.as<float>() + x.numel()}; }

  CpuBackend backend_{2};
  SingleCommunicator alone_;
  Arena memory_{backend_.allocate(std::size_t{256} << 20)}, scratch_{backend_.allocate(std::size_t{65} << 20)};
  Context ctx_{backend_, scratch_, alone_, {.compute = DType::f32}};
  std::vector<std::uint8_t> data_;
  std::vector<float> scale_;
};

TEST_F(DequantizedTest, LargeMatricesComeInSlabsOfWholeGroups) {
  const i64 out = 70'000, in = 256;  // 68 MiB of float32
  const Weight w = make(1, out, in);
  EXPECT_FALSE(ops::supported(ctx_, {w}));
  const Tensor x = numbers(2, in), got = memory_.empty({2, out}, DType::f32),
               want = memory_.empty({2, out}, DType::f32);
  const Tensor whole = memory_.empty({out, in}, DType::f32);
  w.dequantize(whole.as<float>());
  backend_.run(op::Linear{want, x, {whole, {}, &kF32}});
  ops::linear_into(ctx_, got, x, w);
  EXPECT_EQ(values(got), values(want));
  EXPECT_LE(static_cast<i64>(scratch_.peak()), i64{64} << 20);
}

TEST_F(DequantizedTest, ExpertsComeOneByOneAndOnlyThoseWithRows) {
  const i64 experts = 5, out = 20, in = 64;
  const Weight w = make(experts, out, in);
  const Tensor x = numbers(9, in), got = numbers(9, out), want = numbers(9, out);
  std::vector<std::int32_t> ends = {0, 3, 3, 4, 4, 7};  // the last two rows are of no expert
  const Tensor offsets(ends.data(), DType::i32, {experts + 1});
  const Tensor whole = memory_.empty({experts, out, in}, DType::f32);
  for (i64 e = 0; e < experts; ++e) w[e].dequantize(whole[e].as<float>());
  backend_.run(op::GroupedLinear{want, x, {whole, {}, &kF32}, offsets});
  ops::grouped_linear_into(ctx_, got, x, w, offsets);
  EXPECT_EQ(values(got), values(want));
  EXPECT_LE(static_cast<i64>(scratch_.peak()), out * in * 4);
}

}  // namespace
}  // namespace fathom
