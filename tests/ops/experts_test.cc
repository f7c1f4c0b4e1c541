// Routing against a plain double-precision form of the reference's gate, and hostile logits.
#include <fmt/format.h>

#include <limits>
#include <numeric>

#include "ops/operations.h"
#include "support/on_device.h"
#include "support/reference.h"

namespace fathom {
namespace {

using namespace test;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// Indices of the n largest, best first, the lower index of equals first.
std::vector<std::size_t> best_of(const std::vector<double>& values, i64 n) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  order.resize(at(n));
  return order;
}

struct Choice {
  std::vector<std::size_t> experts;
  std::vector<double> weights;
};

Choice gate(const std::vector<double>& logits, const std::vector<double>& bias, const RouteArgs& args) {
  std::vector<double> scores;
  double sum = 0;
  for (const double x : logits) scores.push_back(args.sigmoid ? 1 / (1 + std::exp(-x)) : std::exp(x));
  if (!args.sigmoid) {
    for (const double s : scores) sum += s;
    for (double& s : scores) s /= sum;
  }
  std::vector<double> choice = scores;
  for (std::size_t e = 0; e < bias.size(); ++e) choice[e] += bias[e];
  const std::size_t size = choice.size() / at(args.n_groups);
  std::vector<double> groups;
  for (std::size_t g = 0; g < at(args.n_groups); ++g) {
    const std::vector<double> part(choice.begin() + static_cast<i64>(g * size),
                                   choice.begin() + static_cast<i64>((g + 1) * size));
    double score = 0;
    for (const std::size_t e : best_of(part, bias.empty() ? 1 : 2)) score += part[e];
    groups.push_back(score);
  }
  std::vector<bool> kept(groups.size());
  for (const std::size_t g : best_of(groups, args.top_k_groups)) kept[g] = true;
  for (std::size_t e = 0; args.n_groups > 1 && e < choice.size(); ++e)
    if (!kept[e / size]) choice[e] = -kInf;
  Choice result{best_of(choice, args.top_k), {}};
  double total = 0;
  for (const std::size_t e : result.experts) total += scores[e];
  for (const std::size_t e : result.experts)
    result.weights.push_back(scores[e] / (args.normalize ? total : 1) * static_cast<double>(args.route_scale));
  return result;
}

struct RouteOutput {
  std::vector<double> weights, indices;
};

RouteOutput run_route(OnDevice& backend, const HostTensor& logits, const Tensor& bias, const RouteArgs& args) {
  const HostTensor weights({logits->dim(0), args.top_k}, DType::f32), indices({logits->dim(0), args.top_k}, DType::i32);
  backend.run(op::Route{*weights, *indices, *logits, bias, args});
  weights.expect_guards_intact();
  indices.expect_guards_intact();
  return {values(*weights), values(*indices)};
}

TEST(Route, EqualsTheReferenceRule) {
  for_each_device([](OnDevice& backend) {
    Random random(1);
    for (const bool sigmoid : {false, true})
      for (const bool normalize : {false, true})
        for (const bool biased : {false, true})
          for (const auto& [experts, groups, kept, top_k] :
               {std::array<i64, 4>{16, 4, 2, 4}, {64, 1, 1, 6}, {160, 8, 3, 6}, {256, 8, 4, 8}, {5, 1, 1, 5}}) {
            SCOPED_TRACE(fmt::format("sigmoid={} normalize={} bias={} E={}", sigmoid, normalize, biased, experts));
            RouteArgs args{top_k, groups, kept, sigmoid, normalize, 2.5f};
            const HostTensor logits = HostTensor({37, experts}, DType::f32).normal(random, 2);
            HostTensor bias({experts}, DType::f32);
            bias.normal(random, 3);  // mostly negative sums: a mask of 0 instead of -infinity would win
            for (i64 e = 0; e < experts; ++e) set(*bias, e, get(*bias, e) - 4);
            const auto got = run_route(backend, logits, biased ? *bias : Tensor{}, args);
            const std::vector<double> all = values(*logits);
            for (i64 t = 0; t < 37; ++t) {
              const Choice want = gate({all.begin() + t * experts, all.begin() + (t + 1) * experts},
                                       biased ? values(*bias) : std::vector<double>{}, args);
              for (i64 k = 0; k < top_k; ++k) {
                ASSERT_EQ(got.indices[at(t * top_k + k)], static_cast<double>(want.experts[at(k)]));
                ASSERT_NEAR(got.weights[at(t * top_k + k)], want.weights[at(k)], 1e-6 * want.weights[at(k)] + 1e-9);
              }
            }
          }
  });
}

TEST(Route, TiesGoToTheLowerIndex) {
  for_each_device([](OnDevice& backend) {
    const HostTensor logits({3, 8}, DType::f32);  // all equal
    const auto got = run_route(backend, logits, {}, {3, 4, 2, false, false, 1});
    for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(got.indices[i], static_cast<double>(i % 3));
  });
}

TEST(Route, UnderflowOfAllScoresStaysFinite) {
  for_each_device([](OnDevice& backend) {
    HostTensor logits({2, 8}, DType::f32);
    logits.fill([](i64) { return -1000.0; });
    const auto got = run_route(backend, logits, {}, {4, 1, 1, true, true, 2.5f});
    for (const double weight : got.weights) EXPECT_EQ(weight, 0);
  });
}

TEST(Route, HostileLogitsGiveIndicesInRange) {
  for_each_device([](OnDevice& backend) {
    HostTensor logits({6, 16}, DType::f32), bias({16}, DType::f32);
    logits.fill([](i64 i) {
      const i64 row = i / 16, e = i % 16;
      if (row == 0) return kNan;
      if (row == 1) return e % 2 == 0 ? kNan : 1.0;
      if (row == 2) return kInf;
      if (row == 3) return -kInf;
      if (row == 4) return e == 5 ? kNan : -kInf;
      return e == 3 ? kInf : kNan;
    });
    for (const bool sigmoid : {false, true})
      for (const bool biased : {false, true}) {
        const auto got = run_route(backend, logits, biased ? *bias : Tensor{}, {6, 4, 2, sigmoid, true, 1});
        for (std::size_t row = 0; row < 6; ++row) {
          std::vector<double> chosen(got.indices.begin() + static_cast<i64>(row * 6),
                                     got.indices.begin() + static_cast<i64>(row * 6 + 6));
          std::sort(chosen.begin(), chosen.end());
          EXPECT_GE(chosen.front(), 0);
          EXPECT_LT(chosen.back(), 16);
          EXPECT_EQ(std::unique(chosen.begin(), chosen.end()), chosen.end()) << "an expert chosen twice";
        }
      }
  });
}

struct Grouped {
  HostTensor rows, offsets, places;
  Grouped(i64 choices, i64 dim, i64 local, i64 tokens, i64 top_k, DType act)
      : rows({choices, dim}, act), offsets({local + 1}, DType::i32), places({tokens, top_k}, DType::i32) {}
  Routed routed() const { return {*rows, *offsets, *places}; }
};

TEST(Experts, GroupThenCombine) {
  for_each_device([](OnDevice& backend) {
    Random random(2);
    std::uniform_int_distribution<int> any(0, 15);
    for (const DType act : {DType::f32, DType::bf16})
      for (const i64 tokens : {0, 1, 65, 300})
        for (const auto& [first, local] : {std::array<i64, 2>{0, 16}, {4, 4}, {12, 4}}) {
          const i64 top_k = 3, dim = 50;
          const HostTensor x = HostTensor({tokens, dim}, act, 6).normal(random);
          HostTensor indices({tokens, top_k}, DType::i32);
          indices.fill([&](i64) { return any(random); });
          const Grouped g(tokens * top_k, dim, local, tokens, top_k, act);
          backend.run(op::GroupByExpert{g.routed(), *x, *indices, first});
          for (const HostTensor* out : {&g.rows, &g.offsets, &g.places}) out->expect_guards_intact();
          i64 row = 0;
          for (i64 e = 0; e < local; ++e) {
            ASSERT_EQ(get(*g.offsets, e), row);
            for (i64 i = 0; i < tokens * top_k; ++i) {
              if (get(*indices, i) != static_cast<double>(first + e)) continue;
              ASSERT_EQ(get(*g.places, i), row);
              for (i64 d = 0; d < dim; ++d)
                ASSERT_EQ(get(*g.rows, row * dim + d), get(*x, i / top_k * x->stride(0) + d));
              ++row;
            }
          }
          ASSERT_EQ(get(*g.offsets, local), row);
          const HostTensor weights = HostTensor({tokens, top_k}, DType::f32).normal(random);
          const HostTensor y({tokens, dim}, act);
          backend.run(op::Combine{*y, *g.rows, g.routed(), *weights});
          std::vector<Expected> expected(at(tokens * dim));
          for (i64 i = 0; i < tokens * top_k; ++i) {
            const double e = get(*indices, i) - static_cast<double>(first);
            if (e < 0 || e >= static_cast<double>(local)) {
              ASSERT_EQ(get(*g.places, i), -1);
              continue;
            }
            for (i64 d = 0; d < dim; ++d) {
              const double product = get(*weights, i) * get(*x, i / top_k * x->stride(0) + d);
              expected[at(i / top_k * dim + d)].value += product;
              expected[at(i / top_k * dim + d)].magnitude += std::fabs(product);
            }
          }
          expect_close(y, expected, 4);
        }
  });
}

TEST(Experts, ExpertCountsAtEveryEdge) {
  for_each_device([](OnDevice& backend) {
    for (const i64 count : {0, 1, 7, 63, 64, 65, 128, 129}) {
      HostTensor indices({200, 1}, DType::i32);
      indices.fill([&](i64 i) { return i < count ? 1.0 : 2.0; });
      const HostTensor x = HostTensor({200, 4}, DType::f32).fill([](i64 i) { return static_cast<double>(i); });
      const Grouped g(200, 4, 4, 200, 1, DType::f32);
      backend.run(op::GroupByExpert{g.routed(), *x, *indices, 0});
      EXPECT_EQ(values(*g.offsets), (std::vector<double>{0, 0, static_cast<double>(count), 200, 200}));
      EXPECT_EQ(values(*g.rows), values(*x));
    }
  });
}

}  // namespace
}  // namespace fathom
