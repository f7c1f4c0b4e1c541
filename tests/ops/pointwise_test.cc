// Rows and elementwise operations against double-precision loops.
#include "quant/fp8_block.h"
#include "support/on_device.h"
#include "support/reference.h"
#include "support/safetensors.h"

namespace fathom {
namespace {

using namespace test;

constexpr DType kActs[] = {DType::f32, DType::bf16};
constexpr i64 kWidths[] = {1, 7, 16, 33, 128, 200, 1000};
constexpr i64 kRowCounts[] = {0, 1, 3, 50};

TEST(Embedding, ZerosOutsideTheShard) {
  for_each_device([](OnDevice& backend) {
    Random random(1);
    for (const DType type : kActs)
      for (const DType act : kActs) {
        const HostTensor table = HostTensor({10, 33}, type).normal(random);
        HostTensor ids({6}, DType::i32);
        ids.copy({20, 29, 19, 30, -1, 25});
        const HostTensor y({6, 33}, act);
        backend.run(op::Embedding{*y, *table, *ids, 20});
        std::vector<Expected> expected(6 * 33);
        for (const auto& [row, id] : {std::array<i64, 2>{0, 0}, {1, 9}, {5, 5}})
          for (i64 i = 0; i < 33; ++i) expected[at(row * 33 + i)].value = get(*table, id * 33 + i);
        expect_close(y, expected, 0);
      }
  });
}

TEST(Rows, GatherAndCast) {
  for_each_device([](OnDevice& backend) {
    Random random(2);
    for (const DType from : kActs)
      for (const DType to : kActs) {
        const HostTensor x = HostTensor({7, 5, 19}, from, 3).normal(random);
        const HostTensor y({7, 5, 19}, to, 8);
        backend.run(op::Copy{*y, *x});
        std::vector<Expected> expected;
        for (const double value : values(*x)) expected.push_back({value, 0});
        expect_close(y, expected, 0);
      }
    const HostTensor x = HostTensor({9, 21}, DType::bf16, 4).normal(random);
    HostTensor rows({4}, DType::i32);
    rows.copy({8, 0, 3, 3});
    const HostTensor y({4, 21}, DType::bf16);
    backend.run(op::GatherRows{*y, *x, *rows});
    for (i64 i = 0; i < 4; ++i)
      for (i64 d = 0; d < 21; ++d)
        ASSERT_EQ(get(*y, i * 21 + d), get(*x, static_cast<i64>(get(*rows, i)) * x->stride(0) + d));
    y.expect_guards_intact();
  });
}

TEST(Add, EveryPairOfTypes) {
  for_each_device([](OnDevice& backend) {
    Random random(3);
    for (const DType a : kActs)
      for (const DType b : kActs)
        for (const i64 n : {1, 15, 16, 1000, 70'001}) {
          HostTensor x = HostTensor({1, n}, a).normal(random);
          const HostTensor y = HostTensor({1, n}, b).normal(random);
          const std::vector<double> before = values(*x), added = values(*y);
          backend.run(op::Add{*x, *y});
          std::vector<Expected> expected(at(n));
          for (i64 i = 0; i < n; ++i)
            expected[at(i)] = {before[at(i)] + added[at(i)], std::fabs(before[at(i)]) + std::fabs(added[at(i)])};
          expect_close(x, expected, 1);
        }
  });
}

TEST(RmsNorm, StridedRows) {
  for_each_device([](OnDevice& backend) {
    Random random(4);
    for (const DType in : kActs)
      for (const DType out : kActs)
        for (const i64 n : kRowCounts)
          for (const i64 d : kWidths) {
            const HostTensor x = HostTensor({n, d}, in, 5).normal(random, 3);
            const HostTensor weight = HostTensor({d}, DType::f32).normal(random);
            const HostTensor y({n, d}, out, 2);
            backend.run(op::RmsNorm{*y, *x, {*weight, 1e-6f}});
            const std::vector<double> all = values(*x), w = values(*weight);
            std::vector<Expected> expected(at(n * d));
            for (i64 r = 0; r < n; ++r) {
              double sum = 0;
              for (i64 i = 0; i < d; ++i) sum += all[at(r * d + i)] * all[at(r * d + i)];
              const double factor = 1 / std::sqrt(sum / static_cast<double>(d) + static_cast<double>(1e-6f));
              for (i64 i = 0; i < d; ++i) {
                const double value = all[at(r * d + i)] * factor * w[at(i)];
                expected[at(r * d + i)] = {value, std::fabs(value)};
              }
            }
            expect_close(y, expected, 8);
          }
  });
}

TEST(RmsNorm, ZeroAndHugeRows) {
  for_each_device([](OnDevice& backend) {
    HostTensor x({2, 64}, DType::bf16), weight({64}, DType::f32), y({2, 64}, DType::bf16);
    x.fill([](i64 i) { return i < 64 ? 0.0 : 1e5; });
    weight.fill([](i64) { return 1.0; });
    backend.run(op::RmsNorm{*y, *x, {*weight, 1e-6f}});
    for (i64 i = 0; i < 128; ++i) EXPECT_EQ(get(*y, i), i < 64 ? 0.0 : 1.0);
  });
}

TEST(SiluMul, RangeOfArguments) {
  for_each_device([](OnDevice& backend) {
    Random random(5);
    for (const DType act : kActs)
      for (const i64 n : kRowCounts)
        for (const i64 d : kWidths) {
          const HostTensor a = HostTensor({n, d}, act).normal(random, 20), b = HostTensor({n, d}, act).normal(random);
          const HostTensor y({n, d}, act);
          backend.run(op::SiluMul{*y, *a, *b});
          const std::vector<double> gate = values(*a), up = values(*b);
          std::vector<Expected> expected(gate.size());
          for (std::size_t i = 0; i < gate.size(); ++i) {
            const double value = gate[i] / (1 + std::exp(-gate[i])) * up[i];
            expected[i] = {value, std::fabs(value)};
          }
          expect_close(y, expected, 16);
        }
    HostTensor a({1, 7}, DType::f32), b({1, 7}, DType::f32), y({1, 7}, DType::f32);
    a.copy({-1e30, -200, -90, 0, 90, 1e30, -88.5});
    b.fill([](i64) { return 1.0; });
    backend.run(op::SiluMul{*y, *a, *b});
    const std::vector<double> got = values(*y);
    for (const double value : got) EXPECT_TRUE(std::isfinite(value));
    EXPECT_NEAR(got[0], 0, 1e-30);
    EXPECT_NEAR(got[1], 0, 1e-30);
    EXPECT_EQ(got[4], 90);
    EXPECT_EQ(got[5], static_cast<double>(1e30f));
  });
}

TEST(Golden, QuantizeIsBitEqualToTheReference) {
  const Safetensors file(data_folder() / "golden/golden/kernels.safetensors");
  const std::vector<double> x = values(file["act.x"]);
  const std::vector<float> rows(x.begin(), x.end());
  for (const Isa isa : {Isa::generic, Isa::avx2, Isa::avx512})
    for (const bool power_of_two : {false, true}) {
      if (!has_isa(isa)) continue;
      const std::string kind = power_of_two ? "ue8m0" : "f32";
      std::vector<e4m3_bits> codes(rows.size());
      std::vector<float> scales(rows.size() / 128);
      cpu_kernels(isa).quantize(codes.data(), scales.data(), rows.data(), static_cast<i64>(rows.size()), power_of_two);
      EXPECT_EQ(std::vector<double>(codes.begin(), codes.end()), values(file["act.q." + kind])) << kind;
      EXPECT_EQ(std::vector<double>(scales.begin(), scales.end()), values(file["act.s." + kind])) << kind;
    }
}

TEST(Golden, DequantizeIsBitEqualToTheReference) {
  const Safetensors file(data_folder() / "golden/golden/kernels.safetensors");
  const Tensor raw = file["deq.w"];
  for_each_device([&](OnDevice& backend) {
    const HostTensor y(raw.shape(), DType::bf16);
    backend.run(op::Dequantize{*y, {Tensor(raw.data(), DType::e4m3, raw.shape()), file["deq.s"], &kFp8Block128}});
    EXPECT_EQ(values(*y), values(file["deq.y"]));
  });
}

// Benches time what these numbers give: pages of zeros are read from one page, and a code that is NaN spreads.
TEST(FillRandom, NumbersOfUsefulSize) {
  for_each_device([](OnDevice& backend) {
    struct Case {
      Shape shape;
      DType type;
      double least, most;
    };
    for (const auto& [shape, type, least, most] : {Case{{50, 999}, DType::bf16, -0.0301, 0.0301},
                                                   {{50, 999}, DType::e4m3, -240, 240},
                                                   {{50, 999}, DType::f32, 0x1p-13, 0x1.8p-12},
                                                   {{5000}, DType::f32, 0.9, 1.1}}) {
      const HostTensor x(shape, type), other(shape, type);
      backend.run(op::FillRandom{*x, 1});
      backend.run(op::FillRandom{*other, 2});
      i64 distinct = 0;
      for (i64 i = 0; i < x->numel(); ++i) {
        ASSERT_GE(get(*x, i), least);
        ASSERT_LE(get(*x, i), most);
        distinct += get(*x, i) != get(*other, i) ? 1 : 0;
      }
      EXPECT_GT(distinct, x->numel() / 2) << name_of(type);
    }
  });
}

}  // namespace
}  // namespace fathom
