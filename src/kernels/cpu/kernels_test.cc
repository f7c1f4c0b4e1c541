// The kernels of every instruction set of this machine on plain pointers, against arithmetic: exhaustive conversions,
// every length of rest, bytes after the end of outputs, and attention sums without keys.
#include "kernels/cpu/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "base/numeric.h"

namespace fathom {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kGuard = 12345.0f;

std::size_t at(i64 i) { return static_cast<std::size_t>(i); }

void for_each_isa(const std::function<void(const CpuKernels&)>& test) {
  for (const Isa isa : {Isa::generic, Isa::avx2, Isa::avx512}) {
    if (!has_isa(isa)) continue;
    SCOPED_TRACE(name_of(isa));
    test(cpu_kernels(isa));
  }
}

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

TEST(CpuKernels, TheBestInstructionSetIsThere) {
  EXPECT_TRUE(has_isa(best_isa()));
  EXPECT_TRUE(has_isa(Isa::generic));
}

TEST(CpuKernels, EveryE4m3CodeDecodesExactly) {
  for_each_isa([](const CpuKernels& kernels) {
    std::vector<e4m3_bits> codes(256);
    for (int i = 0; i < 256; ++i) codes[at(i)] = static_cast<e4m3_bits>(i);
    for (const float scale : {1.0f, 0.37f, 0x1p-30f, 3e-5f, 1e5f}) {
      const std::vector<float> scales = {scale, scale * 3};
      for (const i64 n : {256, 255, 131, 17, 1}) {
        std::vector<float> y(at(n + 1), kGuard);
        kernels.decode_row(y.data(), {codes.data(), 256, Element::e4m3, scales.data(), 2}, 0, n);
        for (i64 i = 0; i < n; ++i) {
          const float want = e4m3_to_float(codes[at(i)]) * scales[at(i / 128)];
          if (std::isnan(want))
            ASSERT_TRUE(std::isnan(y[at(i)])) << i;
          else
            ASSERT_EQ(bits_of(y[at(i)]), bits_of(want)) << i << " of " << n;
        }
        EXPECT_EQ(y[at(n)], kGuard);
      }
    }
  });
}

TEST(CpuKernels, EveryBf16WidensAndNarrowsExactly) {
  for_each_isa([](const CpuKernels& kernels) {
    std::vector<bf16_bits> codes(65536), back(65536);
    for (std::uint32_t i = 0; i < 65536; ++i) codes[i] = static_cast<bf16_bits>(i);
    std::vector<float> wide(65536);
    kernels.widen(wide.data(), codes.data(), Element::bf16, 65536);
    for (std::uint32_t i = 0; i < 65536; ++i) ASSERT_EQ(bits_of(wide[i]), i << 16);
    kernels.narrow(back.data(), Element::bf16, wide.data(), 65536);
    for (std::uint32_t i = 0; i < 65536; ++i) ASSERT_EQ(back[i], float_to_bf16(wide[i])) << i;
  });
}

TEST(CpuKernels, NarrowRoundsToEvenAndKeepsNan) {
  for_each_isa([](const CpuKernels& kernels) {
    std::mt19937 random(1);
    std::vector<float> x = {kNan, -kNan, kInf, -kInf, 0.0f, -0.0f, std::bit_cast<float>(0x7f800001u), 3.4e38f};
    for (int i = 0; i < 20'000; ++i) x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
    for (std::uint32_t i = 0; i < 1000; ++i) x.push_back(std::bit_cast<float>(0x3f808000u + (i << 16)));
    std::vector<bf16_bits> y(x.size());
    kernels.narrow(y.data(), Element::bf16, x.data(), static_cast<i64>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], float_to_bf16(x[i])) << x[i];
  });
}

TEST(CpuKernels, QuantizeRoundsLikeTheScalarForm) {
  for_each_isa([](const CpuKernels& kernels) {
    std::vector<float> x(128);
    std::vector<std::uint8_t> codes(129, 0x55);
    float scale = 0;
    std::mt19937 random(2);
    for (int round = 0; round < 300; ++round) {
      for (float& value : x) {
        const auto bits = static_cast<std::uint32_t>(random());
        value = std::bit_cast<float>((bits & 0x83ffffffu) + 0x3a000000u);  // 2^-11 .. 2^-3
      }
      x[3] = std::ldexp(1.0f, round % 40 - 20);
      if (round % 5 == 0) x[9] = kNan;
      kernels.quantize(codes.data(), &scale, x.data(), 128, round % 2 == 0);
      float amax = 1e-4f;
      for (const float value : x) amax = std::max(amax, std::fabs(value));
      float want = amax * (1.0f / 448.0f);
      int exponent = 0;
      if (round % 2 == 0 && std::frexp(want, &exponent) != 0.5f) want = std::ldexp(1.0f, exponent);
      ASSERT_EQ(bits_of(scale), bits_of(want));
      for (std::size_t i = 0; i < 128; ++i) ASSERT_EQ(codes[i], float_to_e4m3(x[i] / scale)) << x[i] << " " << scale;
      ASSERT_EQ(codes[128], 0x55);
    }
  });
}

TEST(CpuKernels, ElementwiseWorkOfEveryLength) {
  for_each_isa([](const CpuKernels& kernels) {
    for (i64 n = 0; n < 70; ++n) {
      std::vector<float> x(at(n)), w(at(n)), y(at(n + 1), kGuard);
      for (i64 i = 0; i < n; ++i) {
        x[at(i)] = static_cast<float>(i * 7 % 19) - 9;
        w[at(i)] = static_cast<float>(i % 5) - 2;
        y[at(i)] = static_cast<float>(i);
      }
      std::vector<float> z = y;
      kernels.add(z.data(), x.data(), n);
      for (i64 i = 0; i < n; ++i) ASSERT_EQ(z[at(i)], static_cast<float>(i) + x[at(i)]);
      EXPECT_EQ(z[at(n)], kGuard);
      z = y;
      kernels.add_scaled(z.data(), x.data(), 0.5f, n);
      for (i64 i = 0; i < n; ++i) ASSERT_EQ(z[at(i)], static_cast<float>(i) + 0.5f * x[at(i)]);
      EXPECT_EQ(z[at(n)], kGuard);
      z = y;
      kernels.silu_mul(z.data(), x.data(), w.data(), n);
      for (i64 i = 0; i < n; ++i) {
        const double g = static_cast<double>(x[at(i)]);
        ASSERT_NEAR(z[at(i)], g / (1 + std::exp(-g)) * static_cast<double>(w[at(i)]), 4e-6);
      }
      EXPECT_EQ(z[at(n)], kGuard);
      if (n == 0) continue;
      z = y;
      kernels.rms_norm(z.data(), x.data(), w.data(), n, 1e-6f);
      double squares = 0;
      for (const float value : x) squares += static_cast<double>(value) * static_cast<double>(value);
      const double factor = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-6);
      for (i64 i = 0; i < n; ++i)
        ASSERT_NEAR(z[at(i)], static_cast<double>(x[at(i)]) * factor * static_cast<double>(w[at(i)]), 2e-6);
      EXPECT_EQ(z[at(n)], kGuard);
    }
  });
}

// y[i] = silu(x) with up = 1 is exp in disguise: its error bounds exp's.
TEST(CpuKernels, ExponentialOverTheWholeRange) {
  for_each_isa([](const CpuKernels& kernels) {
    std::vector<float> x, one, y;
    for (float value = -103; value < 88; value += 0.0173f) x.push_back(value);
    one.assign(x.size(), 1.0f);
    y.resize(x.size());
    kernels.silu_mul(y.data(), x.data(), one.data(), static_cast<i64>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double g = static_cast<double>(x[i]), want = g / (1 + std::exp(-g));
      ASSERT_NEAR(y[i], want, std::fabs(want) * 5e-7 + 3e-37) << x[i];  // below -88.7 the answer is 0
    }
    const std::vector<float> odd = {kNan, kInf, -1e30f, 1e30f, -1e4f};
    kernels.silu_mul(y.data(), odd.data(), one.data(), 5);
    EXPECT_TRUE(std::isnan(y[0]));
    EXPECT_EQ(y[1], kInf);
    EXPECT_EQ(y[2], 0.0f);
    EXPECT_EQ(y[3], 1e30f);
    EXPECT_EQ(y[4], 0.0f);
  });
}

TEST(CpuKernels, GemmWritesItsColumnsAlone) {
  for_each_isa([](const CpuKernels& kernels) {
    const i64 in = 37, out = 101, step = padded_step(in);
    std::vector<float> w(at(out * in)), scratch(at(kGemmScratch));
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i * 13 % 31) - 15;
    for (const i64 rows : {1, 2, 3, 4, 5, 9, 130}) {
      std::vector<float> x(at(rows * step), 0.0f), y(at(rows * 120), kGuard);
      for (i64 r = 0; r < rows; ++r)
        for (i64 i = 0; i < in; ++i) x[at(r * step + i)] = static_cast<float>((r * 5 + i * 3) % 17) - 8;
      const i64 first = 20, count = 71;
      kernels.gemm({x.data(),
                    step,
                    rows,
                    in,
                    {w.data(), in * 4, Element::f32, nullptr, 0},
                    first,
                    count,
                    y.data() + first,
                    120 * 4,
                    Element::f32,
                    scratch.data()});
      for (i64 r = 0; r < rows; ++r)
        for (i64 o = 0; o < 120; ++o) {
          double want = static_cast<double>(kGuard);
          if (o >= first && o < first + count) {
            want = 0;
            for (i64 i = 0; i < in; ++i) want += static_cast<double>(x[at(r * step + i)] * w[at(o * in + i)]);
          }
          ASSERT_EQ(y[at(r * 120 + o)], want) << rows << " rows, " << r << ", " << o;  // small integers: exact
        }
    }
  });
}

struct Sums {
  std::vector<float> top, sum, o;
  SoftmaxSums view;
  Sums(i64 rows, i64 width)
      : top(at(rows), -kInf),
        sum(at(rows), 0.0f),
        o(at(rows * width), kNan),
        view{top.data(), sum.data(), o.data(), width} {}
};

TEST(CpuKernels, QueriesWithoutKeysGiveZeros) {
  for_each_isa([](const CpuKernels& kernels) {
    const i64 rows = 7, k_step = 16, v_step = 32;
    const std::vector<float> q(at(rows * k_step), 1.0f), k(at(3 * k_step), 1.0f), v(at(3 * v_step), 2.0f);
    std::vector<float> scores(at(rows * kSpanKeys), kNan);
    const std::vector<std::int32_t> visible = {3, 0, -5, 1, 2, -1000, 0};
    Sums total(rows, v_step), span(rows, v_step);
    for (int round = 0; round < 2; ++round) {  // the second round merges equal spans: nothing may change
      kernels.attend_span({q.data(), k.data(), k_step, v.data(), v_step, rows, 3, visible.data(), 0.5f, scores.data()},
                          span.view);
      kernels.merge_sums(total.view, span.view, rows);
    }
    kernels.finish_sums(total.view, rows);
    for (i64 m = 0; m < rows; ++m)
      for (i64 i = 0; i < v_step; ++i) EXPECT_EQ(total.o[at(m * v_step + i)], visible[at(m)] > 0 ? 2.0f : 0.0f) << m;
  });
}

TEST(CpuKernels, NanScoresStayVisible) {
  for_each_isa([](const CpuKernels& kernels) {
    const i64 step = 16;
    std::vector<float> q(at(step), 1.0f), k(at(2 * step), 1.0f), v(at(2 * step), 2.0f), scores(at(kSpanKeys));
    k[3] = kNan;
    const std::int32_t visible = 2;
    Sums total(1, step), span(1, step);
    kernels.attend_span({q.data(), k.data(), step, v.data(), step, 1, 2, &visible, 1.0f, scores.data()}, span.view);
    kernels.merge_sums(total.view, span.view, 1);
    kernels.finish_sums(total.view, 1);
    EXPECT_TRUE(std::isnan(total.o[0]));
  });
}

}  // namespace
}  // namespace fathom
