// Products: GPU against CPU, every format, mode, and both activation types.
#include <limits>
#include <numeric>

#include "backends/cuda/arrays.h"
#include "cuda/twin.h"
#include "kernels/cuda/linear/kernels.h"
#include "kernels/cuda/linear/mma_plan.h"
#include "kernels/cuda/rows/rows.h"

namespace fathom::test {
namespace {

// Error of two float32 sums of `in` products of numbers of these deviations, in any order.
double sum_error(i64 in, double x, double w) { return 2 * 16 * 0x1p-24 * static_cast<double>(in) * 0.64 * x * w; }

struct Case {
  i64 rows, out, in;
};

// What Hopper's tensor cores add for products of codes: they are summed with 13 bits below the largest product or sum
// of 128, of about 40 deviations at most, for each 32 inner entries. All other products with FP8 weights are exact.
double rounding_error(const Format& format, GemmMode mode, i64 in, double w, bool hopper) {
  return hopper && format.has_scale() && mode == GemmMode::fp8 ? 0x1p-13 * static_cast<double>(in) / 32 * 40 * w : 0;
}

double deviation(const Format& format) { return format.has_scale() ? 60 * 1.5 * 0x1p-9 : 0.05; }

class Linear : public CudaTest {
 protected:
  void check(const Case& c, const Format& format, GemmMode mode, DType x_type, DType y_type, i64 gap) {
    SCOPED_TRACE(fmt::format("rows {} out {} in {} {} {} x {} y {} gap {}", c.rows, c.out, c.in, format.name(),
                             mode == GemmMode::fp8 ? "fp8" : "bf16", name_of(x_type), name_of(y_type), gap));
    const WeightTwin w(*gpu_, random_, format, {c.out, c.in});
    Twin x(*gpu_, {c.rows, c.in}, x_type, gap), y(*gpu_, {c.rows, c.out}, y_type, gap);
    x.normal(random_);
    cpu_.run(op::Linear{y.host, x.host, w.host, mode});
    for (Backend* gpu : both()) {
      y.poison();
      gpu->run(op::Linear{y.device, x.device, w.device, mode});
      gpu->synchronize();
      y.expect_same(sum_error(c.in, 1, deviation(format)) +
                    rounding_error(format, mode, c.in, deviation(format), on_hopper(gpu)));
    }
  }
};

TEST_F(Linear, SmallShapesAllTypes) {
  for (const Format* format : formats())
    for (const GemmMode mode : {GemmMode::bf16, GemmMode::fp8})
      for (const DType x_type : {DType::f32, DType::bf16})
        for (const DType y_type : {DType::f32, DType::bf16})
          for (const Case& c : {Case{1, 130, 256}, Case{5, 257, 384}, Case{0, 64, 128}})
            check(c, *format, mode, x_type, y_type, c.rows == 5 ? 8 : 0);
}

TEST_F(Linear, OddWidths) {
  for (const Format* format : formats())
    for (const Case& c : {Case{3, 33, 100}, Case{2, 7, 31}, Case{9, 576, 200}, Case{4, 20, 264}})
      check(c, *format, GemmMode::bf16, DType::bf16, DType::bf16, 3);
}

TEST_F(Linear, RowCounts) {
  for (const Format* format : {&kBf16, &kFp8Block128})
    for (const GemmMode mode : {GemmMode::bf16, GemmMode::fp8})
      for (const i64 rows : {2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 255, 1000, 4096})
        check({rows, rows > 200 ? 136 : 400, rows > 200 ? 256 : 640}, *format, mode, DType::bf16, DType::bf16, 0);
}

TEST_F(Linear, ModelShapes) {
  for (const Case& c : {Case{1, 3072, 2048}, Case{1, 576, 7168}, Case{2, 2048, 10944}, Case{1, 7168, 16384},
                        Case{6, 2048, 2816}, Case{16, 10944, 2048}}) {
    check(c, kBf16, GemmMode::bf16, DType::bf16, DType::f32, 0);
    if (c.in % 128 == 0) check(c, kFp8Block128, GemmMode::fp8, DType::bf16, DType::f32, 0);
    check(c, kFp8Block128Ue8m0, GemmMode::bf16, DType::bf16, DType::bf16, 0);
  }
}

TEST_F(Linear, ManyRows) {
  // Widths of tiles, rows and outputs that fill none, an inner dimension that ends inside a block.
  for (const Case& c : {Case{65, 256, 512}, Case{128, 130, 704}, Case{161, 576, 1408}, Case{193, 264, 336},
                        Case{257, 400, 2048}, Case{300, 1408, 720}, Case{1021, 144, 1040}})
    for (const Format* format : {&kBf16, &kFp8Block128, &kFp8Block128Ue8m0}) {
      check(c, *format, GemmMode::bf16, DType::bf16, DType::f32, 4);
      check(c, *format, GemmMode::bf16, DType::bf16, DType::bf16, c.rows % 2 == 0 ? 8 : 3);
      if (c.in % 128 == 0) check(c, *format, GemmMode::fp8, DType::bf16, DType::bf16, 0);
    }
}

TEST_F(Linear, FewDozenRows) {
  // Each number of parts of the inner dimension and size of tiles, outputs and rows that fill none, an inner dimension
  // that ends inside a stage, more tiles than processors.
  for (const Case& c :
       {Case{17, 200, 640}, Case{33, 333, 1280}, Case{100, 130, 1104}, Case{128, 2112, 4096}, Case{200, 300, 512},
        Case{256, 72, 2048}, Case{18, 4104, 2064}, Case{64, 130, 8192}, Case{50, 18500, 128}, Case{2, 5000, 7168}})
    for (const Format* format : {&kBf16, &kFp8Block128, &kFp8Block128Ue8m0}) {
      check(c, *format, GemmMode::bf16, DType::bf16, DType::f32, 4);
      check(c, *format, GemmMode::bf16, DType::bf16, DType::bf16, c.rows % 2 == 0 ? 8 : 3);
      if (c.in % 128 == 0) check(c, *format, GemmMode::fp8, DType::bf16, c.rows < 50 ? DType::f32 : DType::bf16, 0);
    }
}

// Kernels that keep sums in units of the current scale must not go over to that of a block like this.
TEST_F(Linear, BlocksOfTinyScalesAddNothing) {
  for (const i64 rows : {1, 5, 40, 100, 300})
    for (const GemmMode mode : {GemmMode::bf16, GemmMode::fp8})
      for (const float tiny : {0.0f, 0x1p-149f, 0x1p-127f, 0x1p-101f, 0x1p-70f})
        for (const i64 place : {0, 1, 2, 3}) {  // 3: all of them
          SCOPED_TRACE(fmt::format("{} rows mode {} scale {} at {}", rows, static_cast<int>(mode), tiny, place));
          const Case c{rows, 128, 384};
          const WeightTwin w(*gpu_, random_, kFp8Block128, {c.out, c.in});
          Twin x(*gpu_, {c.rows, c.in}, DType::bf16), y(*gpu_, {c.rows, c.out}, DType::f32);
          x.normal(random_);
          for (i64 b = 0; b < 3; ++b)
            if (place == 3 || place == b) w.host.scale.as<float>()[b] = tiny;
          gpu_->upload(w.device.scale, w.host.scale.data());
          gpu_->synchronize();
          cpu_.run(op::Linear{y.host, x.host, w.host, mode});
          for (Backend* gpu : both()) {
            y.poison();
            gpu->run(op::Linear{y.device, x.device, w.device, mode});
            gpu->synchronize();
            y.expect_same(sum_error(c.in, 1, deviation(kFp8Block128)) +
                          rounding_error(kFp8Block128, mode, c.in, deviation(kFp8Block128), on_hopper(gpu)));
          }
        }
}

// One NaN among activations: its row alone is NaN, also where activations become codes.
TEST_F(Linear, NanStaysInItsRow) {
  for (const Format* format : {&kBf16, &kFp8Block128, &kFp8Block128Ue8m0})
    for (const GemmMode mode : {GemmMode::bf16, GemmMode::fp8})
      for (const i64 rows : {2, 5, 12, 40, 100, 300}) {
        const Case c{rows, 136, 384};
        SCOPED_TRACE(fmt::format("{} rows {} mode {}", rows, format->name(), static_cast<int>(mode)));
        const WeightTwin w(*gpu_, random_, *format, {c.out, c.in});
        Twin x(*gpu_, {c.rows, c.in}, DType::bf16), y(*gpu_, {c.rows, c.out}, DType::f32);
        std::normal_distribution<double> draw;
        x.fill([&](i64 i) { return i == c.in + 200 ? std::numeric_limits<double>::quiet_NaN() : draw(random_); });
        cpu_.run(op::Linear{y.host, x.host, w.host, mode});
        for (i64 o = 0; o < c.out; ++o) {
          set(y.host, c.out + o, std::numeric_limits<double>::quiet_NaN());
          ASSERT_TRUE(std::isfinite(get(y.host, o)));
        }
        for (Backend* gpu : both()) {
          y.poison();
          gpu->run(op::Linear{y.device, x.device, w.device, mode});
          gpu->synchronize();
          y.expect_same(sum_error(c.in, 1, deviation(*format)) +
                        rounding_error(*format, mode, c.in, deviation(*format), on_hopper(gpu)));
        }
      }
}

// The number of stages is the device's; what is computed is not.
TEST_F(Linear, StagesOfTheTensorCoreKernel) {
  cuda::Stream all{nullptr, cuda::find_device(0)}, portable{nullptr, cuda::find_device(0, true)};
  const i64 rows = 200, out = 300, in = 640;
  for (const cuda::Kind kind : {cuda::Kind::bf16, cuda::Kind::mixed, cuda::Kind::fp8}) {
    const Format& format = kind == cuda::Kind::bf16 ? kBf16 : kFp8Block128;
    const WeightTwin w(*gpu_, random_, format, {out, in});
    Twin x(*gpu_, {rows, in}, DType::bf16), codes(*gpu_, {rows, in}, DType::e4m3),
        scales(*gpu_, {rows, in / 128}, DType::f32);
    x.normal(random_);
    gpu_->synchronize();
    cuda::quantize(all, codes.device.as<e4m3_bits>(), scales.device.as<float>(), array_of(x.device), false);
    std::vector<float> first;
    const int least = cuda::mma_stages(kind, cuda::kPortableShared);
    for (int stages = least; stages <= cuda::kMostMmaStages; ++stages) {
      SCOPED_TRACE(fmt::format("kind {} stages {}", static_cast<int>(kind), stages));
      Twin y(*gpu_, {rows, out}, DType::f32);
      gpu_->synchronize();
      cuda::Product p;
      p.part[0] = {matrix_of(w.device), y.device.data(), cuda::Type::f32, out};
      p.rows = rows, p.x = x.device.data(), p.x_stride = in;
      if (kind == cuda::Kind::fp8)
        p.x = codes.device.data(), p.x_type = cuda::Type::e4m3, p.x_scale = scales.device.as<float>();
      cuda::mma_product(all, p, {.stages = stages});
      cudaDeviceSynchronize();
      std::vector<float> got(static_cast<std::size_t>(rows * out));
      gpu_->download(got.data(), y.device);
      if (stages == least) first = got;
      EXPECT_EQ(got, first);
      if (stages == least) continue;
      EXPECT_THROW(cuda::mma_product(portable, p, {.stages = stages}), Error);
    }
  }
}

TEST_F(Linear, GridsThatNoGpuHasAreRefused) {
  cuda::Stream stream{nullptr, cuda::find_device(0)};
  cuda::Product p;
  p.part[0].w = {nullptr, nullptr, cuda::Type::bf16, false, 70000, 8, 8};
  p.rows = 1, p.heads = 70000;
  try {
    cuda::simple_product(stream, p, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("would need 1 x 1 x 70000 blocks"), std::string::npos) << error.what();
  }
}

TEST_F(Linear, Grouped) {
  for (const Format* format : formats())
    for (const GemmMode mode : {GemmMode::bf16, GemmMode::fp8})
      for (const std::vector<int>& counts : std::vector<std::vector<int>>{
               {0, 0, 0}, {1}, {3, 0, 1, 64, 0, 65, 7}, {129, 128, 0, 63, 1, 0, 300}, std::vector<int>(64, 1)}) {
        const auto n = static_cast<i64>(counts.size());
        const i64 rows = std::accumulate(counts.begin(), counts.end(), 0), extra = 5;  // rows of no expert
        SCOPED_TRACE(fmt::format("{} experts, {} rows, {} mode {}", n, rows, format->name(), static_cast<int>(mode)));
        const WeightTwin w(*gpu_, random_, *format, {n, 144, 256});
        Twin x(*gpu_, {rows + extra, 256}, DType::bf16), y(*gpu_, {rows + extra, 144}, DType::bf16);
        Twin offsets(*gpu_, {n + 1}, DType::i32);
        x.normal(random_);
        offsets.fill([&](i64 i) { return std::accumulate(counts.begin(), counts.begin() + i, 0); });
        cpu_.run(op::GroupedLinear{y.host, x.host, w.host, offsets.host, mode});
        for (Backend* gpu : both()) {
          y.poison();
          gpu->run(op::GroupedLinear{y.device, x.device, w.device, offsets.device, mode});
          gpu->synchronize();
          y.expect_same(sum_error(256, 1, deviation(*format)) +
                        rounding_error(*format, mode, 256, deviation(*format), on_hopper(gpu)));
        }
      }
}

TEST_F(Linear, HeadMatmul) {
  for (const DType type : {DType::f32, DType::bf16})
    for (const i64 heads : {1, 3, 16, 128})
      for (const i64 tokens : {0, 1, 2, 9, 70}) {
        if (heads == 128 && tokens > 2) continue;
        for (const auto& [n, k] : {std::pair<i64, i64>{512, 128}, {128, 512}, {10, 30}}) {
          SCOPED_TRACE(fmt::format("heads {} tokens {} n {} k {}", heads, tokens, n, k));
          // Queries: the first k of k + 8 entries of a head, a view strided in tokens and heads.
          Twin x(*gpu_, {tokens, heads, k}, type, 8), w(*gpu_, {heads, n, k}, type), y(*gpu_, {tokens, heads, n}, type);
          x.normal(random_), w.normal(random_, 0.05);
          cpu_.run(op::HeadMatmul{y.host, x.host, w.host});
          for (Backend* gpu : both()) {
            y.poison();
            gpu->run(op::HeadMatmul{y.device, x.device, w.device});
            gpu->synchronize();
            y.expect_same(sum_error(k, 1, 0.05));
          }
        }
      }
}

}  // namespace
}  // namespace fathom::test
