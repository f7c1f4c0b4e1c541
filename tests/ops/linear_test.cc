// Products against double-precision loops: every format, activation type and mode, odd sizes, strided views.
#include <fmt/format.h>

#include "quant/fp8_block.h"
#include "support/on_device.h"
#include "support/reference.h"
#include "support/safetensors.h"

namespace fathom {
namespace {

using namespace test;

// A random weight of a format, possibly a stack, and its exact values.
struct TestWeight {
  HostTensor data, scale;
  Weight weight;

  TestWeight(const Format& format, i64 stack, i64 out, i64 in, Random& random)
      : data({stack, out, in}, format.element()),
        scale({stack, blocks_of(out), blocks_of(in)}, DType::f32),
        weight{*data, format.has_scale() ? *scale : Tensor{}, &format} {
    if (!format.has_scale()) {
      data.normal(random);
      return;
    }
    std::uniform_int_distribution<int> code(0, 255);  // every finite code, subnormals included
    auto* codes = data->as<e4m3_bits>();
    for (i64 i = 0; i < data->numel(); ++i) do
        codes[i] = static_cast<e4m3_bits>(code(random));
      while ((codes[i] & 0x7f) == 0x7f);
    std::uniform_real_distribution<double> exponent(-12, -6);
    scale.fill([&](i64) {
      const double e = exponent(random);
      return std::exp2(format.power_of_two() ? std::round(e) : e);
    });
  }

  std::vector<double> exact(i64 i) const {
    const Weight w = weight[i];
    if (!w.scale.defined()) return values(w.data);
    return dequantized(values(w.data), values(w.scale), w.out(), w.in(), 128);
  }
};

std::vector<double> quantised(const Tensor& x, bool power_of_two) {
  std::vector<double> all = values(x);
  const i64 n = x.dim(1);
  for (i64 t = 0; t < x.dim(0); ++t) {
    std::vector<float> row(at(n)), scales(at(n / 128));
    std::vector<e4m3_bits> codes(at(n));
    for (i64 i = 0; i < n; ++i) row[at(i)] = static_cast<float>(all[at(t * n + i)]);
    quantize_activation(row.data(), n, power_of_two, codes.data(), scales.data());
    for (i64 i = 0; i < n; ++i)
      all[at(t * n + i)] = static_cast<double>(e4m3_to_float(codes[at(i)])) * static_cast<double>(scales[at(i / 128)]);
  }
  return all;
}

struct Case {
  i64 tokens, out, in;
};

constexpr Case kCases[] = {{1, 1, 1},     {1, 3, 7},      {2, 17, 31},   {3, 129, 128},  {5, 128, 129},
                           {1, 300, 257}, {7, 40, 384},   {9, 65, 576},  {16, 31, 100},  {33, 150, 256},
                           {64, 33, 130}, {65, 257, 200}, {1, 64, 4096}, {130, 70, 260}, {0, 10, 128}};

TEST(Linear, EveryFormatTypeAndSize) {
  for_each_device([](OnDevice& backend) {
    Random random(1);
    for (const Format* format : all_formats())
      for (const DType act : {DType::f32, DType::bf16})
        for (const auto& [tokens, out, in] : kCases) {
          SCOPED_TRACE(fmt::format("{} {} T={} out={} in={}", format->name(), name_of(act), tokens, out, in));
          const TestWeight w(*format, 1, out, in, random);
          const HostTensor x = HostTensor({tokens, in}, act, 5).normal(random);
          const HostTensor y({tokens, out}, act, 3);
          backend.run(op::Linear{*y, *x, w.weight[0], GemmMode::bf16});
          expect_close(y, matmul(values(*x), w.exact(0), tokens, out, in));
        }
  });
}

TEST(Linear, Fp8ModeQuantisesActivations) {
  for_each_device([](OnDevice& backend) {
    Random random(2);
    for (const Format* format : {&kFp8Block128, &kFp8Block128Ue8m0})
      for (const i64 tokens : {1, 6, 70}) {
        SCOPED_TRACE(fmt::format("{} T={}", format->name(), tokens));
        const TestWeight w(*format, 1, 150, 384, random);
        const HostTensor x = HostTensor({tokens, 384}, DType::f32, 2).normal(random);
        const HostTensor y({tokens, 150}, DType::f32);
        backend.run(op::Linear{*y, *x, w.weight[0], GemmMode::fp8});
        expect_close(y, matmul(quantised(*x, format->power_of_two()), w.exact(0), tokens, 150, 384));
      }
    const TestWeight plain(kBf16, 1, 20, 100, random);  // no codes: nothing to quantise for, any width is right
    const HostTensor x = HostTensor({3, 100}, DType::bf16).normal(random);
    const HostTensor y({3, 20}, DType::bf16);
    backend.run(op::Linear{*y, *x, plain.weight[0], GemmMode::fp8});
    expect_close(y, matmul(values(*x), plain.exact(0), 3, 20, 100));
  });
}

TEST(Linear, Fp8ModeRefusesOddWidths) {
  Random random(3);
  const TestWeight w(kFp8Block128, 1, 20, 200, random);
  const HostTensor x({3, 200}, DType::bf16), y({3, 20}, DType::bf16);
  try {
    OnDevice(make_cpu_backend(1)).run(op::Linear{*y, *x, w.weight[0], GemmMode::fp8});
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("Last dimension size must be divisible by block_size (block_size=128)"),
              std::string::npos);
  }
}

TEST(Linear, MixedActivationTypes) {
  for_each_device([](OnDevice& backend) {
    Random random(4);
    const TestWeight w(kBf16, 1, 50, 70, random);
    const HostTensor x = HostTensor({4, 70}, DType::bf16).normal(random);
    const HostTensor y({4, 50}, DType::f32);
    backend.run(op::Linear{*y, *x, w.weight[0], GemmMode::bf16});
    expect_close(y, matmul(values(*x), w.exact(0), 4, 50, 70));
  });
}

TEST(Linear, RowsDoNotDependOnTheirCompany) {
  for_each_device([](OnDevice& backend) {
    if (!backend.on_host()) return;  // a GPU has kernels for few rows and for many
    Random random(5);
    for (const Format* format : all_formats()) {
      const TestWeight w(*format, 1, 131, 520, random);
      const HostTensor x = HostTensor({100, 520}, DType::f32).normal(random);
      const HostTensor together({100, 131}, DType::f32);
      backend.run(op::Linear{*together, *x, w.weight[0], GemmMode::bf16});
      for (const i64 rows : {1, 2, 5, 17}) {
        const HostTensor alone({rows, 131}, DType::f32);
        backend.run(op::Linear{*alone, x->narrow(0, 40, rows), w.weight[0], GemmMode::bf16});
        EXPECT_EQ(values(*alone), values(together->narrow(0, 40, rows))) << format->name() << " rows=" << rows;
      }
    }
  });
}

TEST(Linear, LargeActivationsStayFinite) {
  for_each_device([](OnDevice& backend) {
    Random random(6);
    const TestWeight w(kFp8Block128, 1, 20, 512, random);
    const HostTensor x = HostTensor({3, 512}, DType::bf16).normal(random, 1e5);
    const HostTensor y({3, 20}, DType::bf16);
    backend.run(op::Linear{*y, *x, w.weight[0], GemmMode::bf16});
    expect_close(y, matmul(values(*x), w.exact(0), 3, 20, 512));
  });
}

TEST(GroupedLinear, RaggedExperts) {
  for_each_device([](OnDevice& backend) {
    Random random(7);
    const std::vector<std::int32_t> counts = {0, 1, 7, 0, 63, 64, 65, 0, 128, 129, 0};
    const auto experts = static_cast<i64>(counts.size());
    i64 rows = 0;
    HostTensor offsets({experts + 1}, DType::i32);
    for (i64 e = 0; e < experts; ++e) set(*offsets, e + 1, static_cast<double>(rows += counts[at(e)]));
    for (const Format* format : all_formats())
      for (const GemmMode mode : {GemmMode::bf16, GemmMode::fp8}) {
        const TestWeight w(*format, experts, 70, 256, random);
        const HostTensor x = HostTensor({rows + 9, 256}, DType::bf16).normal(random);
        HostTensor y({rows + 9, 70}, DType::bf16);
        y.fill([](i64) { return 77.0; });
        backend.run(op::GroupedLinear{*y, *x, w.weight, *offsets, mode});
        const bool quantise = mode == GemmMode::fp8 && format->has_scale();
        std::vector<Expected> expected;
        for (i64 e = 0, row = 0; e < experts; row += counts[at(e++)]) {
          const Tensor part = x->narrow(0, row, counts[at(e)]);
          const auto some = matmul(quantise ? quantised(part, format->power_of_two()) : values(part), w.exact(e),
                                   counts[at(e)], 70, 256);
          expected.insert(expected.end(), some.begin(), some.end());
        }
        expected.resize(at((rows + 9) * 70), {77.0, 0});  // rows of no expert are left alone
        // Hopper's tensor cores keep 13 bits of a sum of codes, for each 32 of them.
        expect_close(y, expected, quantise && !backend.on_host() ? 0x1p14 : 16);
      }
  });
}

TEST(HeadMatmul, StridedHeads) {
  for_each_device([](OnDevice& backend) {
    Random random(8);
    for (const DType act : {DType::f32, DType::bf16})
      for (const DType type : {DType::f32, DType::bf16})
        for (const i64 tokens : {0, 1, 5, 40, 300})
          for (const bool transposed : {false, true}) {
            const i64 heads = 3, n = 50, k = 37;
            const HostTensor x = HostTensor({tokens, heads, k}, act, 11).normal(random);
            const HostTensor w = HostTensor(transposed ? Shape{heads, k, n} : Shape{heads, n, k}, type).normal(random);
            const HostTensor y({tokens, heads, n}, act, 4);
            backend.run(op::HeadMatmul{*y, *x, *w, transposed});
            const std::vector<double> all_x = values(*x), all_w = values(*w);
            std::vector<Expected> expected(at(tokens * heads * n));
            for (i64 h = 0; h < heads; ++h) {
              std::vector<double> one(at(tokens * k));
              for (i64 t = 0; t < tokens; ++t) std::copy_n(all_x.begin() + (t * heads + h) * k, k, one.begin() + t * k);
              std::vector<double> matrix(at(n * k));
              for (i64 i = 0; i < n * k; ++i) {
                const i64 row = i / k, column = i % k;
                matrix[at(i)] = all_w[at(h * n * k + (transposed ? column * n + row : i))];
              }
              const auto part = matmul(one, matrix, tokens, n, k);
              for (i64 t = 0; t < tokens; ++t)
                std::copy_n(part.begin() + t * n, n, expected.begin() + (t * heads + h) * n);
            }
            expect_close(y, expected);
          }
  });
}

// Keys and values of cached rows: all heads take the same input, and write into parts of one tensor.
TEST(HeadMatmul, HeadsWithOneInput) {
  for_each_device([](OnDevice& backend) {
    Random random(9);
    for (const DType act : {DType::f32, DType::bf16})
      for (const i64 rows : {1, 70, 300}) {
        const i64 heads = 3, k = 512, nope = 128, v = 128;
        const HostTensor x = HostTensor({rows, k}, act, 64).normal(random);
        const HostTensor w = HostTensor({heads, k, nope}, act).normal(random);
        const HostTensor y({rows, heads, nope + v}, act);
        backend.run(op::HeadMatmul{y->narrow(2, 0, nope), x->broadcast(1, heads), *w, true});
        const std::vector<double> all_w = values(*w);
        std::vector<Expected> expected(at(rows * heads * (nope + v)));
        for (i64 h = 0; h < heads; ++h) {
          std::vector<double> matrix(at(nope * k));
          for (i64 i = 0; i < nope * k; ++i) matrix[at(i)] = all_w[at(h * nope * k + i % k * nope + i / k)];
          const auto part = matmul(values(*x), matrix, rows, nope, k);
          for (i64 t = 0; t < rows; ++t)
            std::copy_n(part.begin() + t * nope, nope, expected.begin() + (t * heads + h) * (nope + v));
        }
        expect_close(y, expected);
      }
  });
}

TEST(Dequantize, CodeTimesScaleRoundedOnce) {
  for_each_device([](OnDevice& backend) {
    Random random(9);
    for (const Format* format : {&kFp8Block128, &kFp8Block128Ue8m0}) {
      const TestWeight w(*format, 1, 300, 200, random);
      const std::vector<double> exact = w.exact(0);
      for (const DType type : {DType::f32, DType::bf16}) {
        const HostTensor y({300, 200}, type);
        backend.run(op::Dequantize{*y, w.weight[0]});
        const std::vector<double> got = values(*y);
        for (std::size_t i = 0; i < got.size(); ++i) {
          const auto wide = static_cast<float>(exact[i]);
          ASSERT_EQ(got[i], static_cast<double>(type == DType::f32 ? wide : bf16_to_float(float_to_bf16(wide))));
        }
        y.expect_guards_intact();
      }
    }
  });
}

// The reference's own kernels: act_quant, then fp8_gemm on quantised operands.
TEST(Golden, Fp8GemmAgreesWithTheReference) {
  const Safetensors file(data_folder() / "golden/golden/kernels.safetensors");
  const auto typed = [&](const std::string& name, DType dtype) {
    const Tensor raw = file[name];
    return Tensor(raw.data(), dtype, raw.shape());
  };
  const Weight w{typed("gemm.qw", DType::e4m3), file["gemm.sw"], &kFp8Block128};
  const Tensor exact = file["gemm.exact"];
  for_each_device([&](OnDevice& backend) {
    const HostTensor y(exact.shape(), DType::f32), rounded(exact.shape(), DType::bf16);
    backend.run(op::Linear{*y, file["gemm.a"], w, GemmMode::fp8});
    backend.run(op::Linear{*rounded, file["gemm.a"], w, GemmMode::fp8});
    const std::vector<double> got = values(*y), narrow = values(*rounded), want = values(exact);
    const std::vector<double> reference = values(file["gemm.y"]);
    double error = 0, norm = 0, bf16_error = 0, reference_error = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      error += (got[i] - want[i]) * (got[i] - want[i]);
      bf16_error += (narrow[i] - want[i]) * (narrow[i] - want[i]);
      reference_error += (reference[i] - want[i]) * (reference[i] - want[i]);
      norm += want[i] * want[i];
    }
    EXPECT_LT(std::sqrt(error / norm), backend.on_host() ? 1e-6 : 0x1p-12);  // tensor cores keep 13 bits of a sum
    EXPECT_LT(std::sqrt(bf16_error / norm), 3e-3);
    EXPECT_LT(std::sqrt(bf16_error), std::sqrt(reference_error) * 1.05);
  });
}

}  // namespace
}  // namespace fathom
