// Sampling: exact cuts, the distribution of draws, independence of a row from its company, hostile logits.
#include <cmath>
#include <limits>
#include <map>

#include "ops/context.h"
#include "support/on_device.h"
#include "support/reference.h"

namespace fathom {
namespace {

using namespace test;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// Arguments for n rows, the neutral ones unless changed; temperature 1.
struct Rows {
  std::vector<RowSampling> all;
  HostTensor seen;
  bool has_seen = false;

  Rows(i64 n, i64 vocab) : all(at(n), RowSampling{{.seed = 0}}), seen({n, (vocab + 7) / 8}, DType::u8) {
    set(&RowSampling::step, [](i64 i) { return i; });
  }
  template <typename Value>
  void set(auto field, Value value) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      auto& parameter = all[i].*field;
      parameter = static_cast<std::remove_reference_t<decltype(parameter)>>(value(static_cast<i64>(i)));
    }
  }
  template <typename Value>
  void set_all(auto field, Value value) {
    set(field, [value](i64) { return value; });
  }
  SampleArgs args() {
    return {Tensor(all.data(), DType::u8, {static_cast<i64>(all.size()), sizeof(RowSampling)}),
            has_seen ? *seen : Tensor{}};
  }
};

std::vector<double> draw(OnDevice& backend, const Tensor& logits, Rows& rows) {
  const HostTensor ids({logits.dim(0)}, DType::i32);
  backend.run(op::Sample{*ids, logits, rows.args()});
  ids.expect_guards_intact();
  return values(*ids);
}

// The same row of logits n times.
HostTensor repeated(i64 n, const std::vector<double>& row) {
  HostTensor logits({n, static_cast<i64>(row.size())}, DType::f32);
  logits.fill([&](i64 i) { return row[static_cast<std::size_t>(i) % row.size()]; });
  return logits;
}

std::map<double, i64> counts(const std::vector<double>& ids) {
  std::map<double, i64> map;
  for (const double id : ids) ++map[id];
  return map;
}

TEST(Sample, GreedyTakesTheFirstOfEquals) {
  for_each_device([](OnDevice& backend) {
    HostTensor logits({4, 6}, DType::f32);
    logits.copy({0, 3, 1, 3, 2, 3, -5, -1, -1, -2, -3, -4, kNan, kNan, 1, 2, kNan, 2, kInf, 1, 2, kInf, 0, 0});
    Rows rows(4, 6);
    rows.set(&RowSampling::temperature, [](i64 i) { return i % 2 == 0 ? 0.0 : -1.0; });
    EXPECT_EQ(draw(backend, *logits, rows), (std::vector<double>{1, 1, 3, 0}));
  });
}

TEST(Sample, HostileLogits) {
  for_each_device([](OnDevice& backend) {
    for (const double temperature : {0.0, 1.0}) {
      HostTensor logits({5, 4}, DType::f32);
      logits.copy({kNan,  kNan, kNan, kNan, -kInf, -kInf, -kInf, -kInf, kNan, -kInf, 5, -kInf, 0, kInf, kInf, kNan,  //
                   -kInf, kNan, kNan, -3e38});
      Rows rows(5, 4);
      rows.set_all(&RowSampling::temperature, temperature);
      EXPECT_EQ(draw(backend, *logits, rows), (std::vector<double>{0, 0, 2, 1, 3}));
    }
  });
}

TEST(Sample, RowsThatAreNotFiniteAreMarked) {
  for_each_device([](OnDevice& backend) {
    const std::vector<double> bad{kNan, kInf, -kInf};
    const i64 vocab = 100, rows = 10;
    HostTensor logits({rows, vocab}, DType::f32), ids({rows}, DType::i32);
    logits.fill([&](i64 i) {
      const i64 row = i / vocab, at = i % vocab;
      return row > 0 && at == std::vector<i64>{0, 57, 99}[static_cast<std::size_t>((row - 1) / 3)]
                 ? bad[static_cast<std::size_t>((row - 1) % 3)]
                 : 3e38;
    });
    ids.fill([](i64 i) { return static_cast<double>(i); });
    backend.run(op::MarkNotFinite{*ids, *logits});
    EXPECT_EQ(values(*ids), (std::vector<double>{0, -1, -1, -1, -1, -1, -1, -1, -1, -1}));
  });
}

TEST(Sample, DrawsFollowTheSoftmax) {
  for_each_device([](OnDevice& backend) {
    const i64 n = 20'000;
    const std::vector<double> row = {1, 0, 2, -1, 0.5, -20};
    for (const double temperature : {1.0, 0.5, 3.0}) {
      Rows rows(n, 6);
      rows.set_all(&RowSampling::temperature, temperature);
      rows.set_all(&RowSampling::seed, 1234.0);
      const auto seen = counts(draw(backend, *repeated(n, row), rows));
      double sum = 0;
      for (const double x : row) sum += std::exp(x / temperature);
      for (std::size_t v = 0; v < row.size(); ++v) {
        const double p = std::exp(row[v] / temperature) / sum;
        const auto it = seen.find(static_cast<double>(v));
        const double got = it == seen.end() ? 0 : static_cast<double>(it->second);
        EXPECT_NEAR(got, static_cast<double>(n) * p, 5 * std::sqrt(static_cast<double>(n) * p * (1 - p)) + 1) << v;
      }
    }
  });
}

TEST(Sample, SeedsGiveDifferentStreams) {
  for_each_device([](OnDevice& backend) {
    const i64 n = 2000;
    const HostTensor logits = repeated(n, std::vector<double>(100, 0.0));
    Rows one(n, 100), two(n, 100);
    two.set_all(&RowSampling::seed, 1.0);
    const auto a = draw(backend, *logits, one), b = draw(backend, *logits, two);
    EXPECT_EQ(a, draw(backend, *logits, one));
    i64 equal = 0;
    for (std::size_t i = 0; i < a.size(); ++i) equal += a[i] == b[i];
    EXPECT_NEAR(static_cast<double>(equal), 20, 25);
  });
}

TEST(Sample, CutsAreExact) {
  for_each_device([](OnDevice& backend) {
    const i64 n = 3000;
    // Probabilities 0.4, 0.3, 0.2, 0.1, in another order.
    const HostTensor logits = repeated(n, {std::log(0.1), std::log(0.4), std::log(0.2), std::log(0.3)});
    const auto drawn = [&](const std::function<void(Rows&)>& change) {
      Rows rows(n, 4);
      change(rows);
      std::vector<double> ids;
      for (const auto& [id, count] : counts(draw(backend, *logits, rows))) ids.push_back(id);
      return ids;
    };
    using Ids = std::vector<double>;
    EXPECT_EQ(drawn([](Rows&) {}), (Ids{0, 1, 2, 3}));
    EXPECT_EQ(drawn([](Rows& r) { r.set_all(&RowSampling::top_k, 2.0); }), (Ids{1, 3}));
    EXPECT_EQ(drawn([](Rows& r) { r.set_all(&RowSampling::top_k, 1.0); }), (Ids{1}));
    EXPECT_EQ(drawn([](Rows& r) { r.set_all(&RowSampling::top_k, 400.0); }), (Ids{0, 1, 2, 3}));
    EXPECT_EQ(drawn([](Rows& r) { r.set_all(&RowSampling::top_p, 0.65); }), (Ids{1, 3}));
    EXPECT_EQ(drawn([](Rows& r) { r.set_all(&RowSampling::top_p, 0.75); }), (Ids{1, 2, 3}));
    EXPECT_EQ(drawn([](Rows& r) { r.set_all(&RowSampling::top_p, 0.0); }), (Ids{1}));
    EXPECT_EQ(drawn([](Rows& r) { r.set_all(&RowSampling::min_p, 0.45); }), (Ids{1, 2, 3}));
    EXPECT_EQ(drawn([](Rows& r) { r.set_all(&RowSampling::min_p, 1.0); }), (Ids{1}));
    // top_p counts within what top_k left: 0.4 / 0.7 = 0.57 reaches 0.5 alone.
    EXPECT_EQ(drawn([](Rows& r) {
                r.set_all(&RowSampling::top_k, 2.0);
                r.set_all(&RowSampling::top_p, 0.5);
              }),
              (Ids{1}));
  });
}

TEST(Sample, PenaltyOnSeenTokensOnly) {
  for_each_device([](OnDevice& backend) {
    HostTensor logits({4, 10}, DType::f32);
    logits.fill([](i64 i) { return i % 10 == 9 ? 4.0 : i % 10 == 3 ? 3.0 : -1.0; });
    Rows rows(4, 10);
    rows.set_all(&RowSampling::temperature, 0.0);
    rows.set(&RowSampling::repetition_penalty, [](i64 i) { return std::vector{1.0f, 2.0f, 1.2f, 2.0f}[at(i)]; });
    rows.has_seen = true;
    for (i64 r = 0; r < 3; ++r) set(*rows.seen, r * 2 + 1, 1 << 1);  // token 9
    EXPECT_EQ(draw(backend, *logits, rows), (std::vector<double>{9, 3, 9, 9}));
    logits.fill([](i64 i) { return i % 10 == 9 ? -1.0 : i % 10 == 3 ? -1.5 : -9.0; });
    EXPECT_EQ(draw(backend, *logits, rows), (std::vector<double>{9, 3, 9, 9}));
  });
}

TEST(Sample, RowsDoNotDependOnTheirCompany) {
  for_each_device([](OnDevice& backend) {
    Random random(1);
    const i64 n = 50, vocab = 1000;
    const HostTensor logits = HostTensor({n, vocab}, DType::f32).normal(random, 2);
    Rows rows(n, vocab);
    rows.set(&RowSampling::seed, [](i64 i) { return static_cast<double>(i * 77); });
    rows.set(&RowSampling::top_p, [](i64 i) { return i % 3 == 0 ? 1.0 : 0.9; });
    rows.set(&RowSampling::top_k, [](i64 i) { return i % 2 == 0 ? 0.0 : 20.0; });
    const auto together = draw(backend, *logits, rows);
    for (i64 i = 0; i < n; ++i) {
      SampleArgs one = rows.args();
      one.rows = one.rows.narrow(0, i, 1);
      const HostTensor id({1}, DType::i32);
      backend.run(op::Sample{*id, logits->narrow(0, i, 1), one});
      EXPECT_EQ(get(*id, 0), together[at(i)]);
    }
  });
}

// As a model calls it, on the CPU.
struct Drawing {
  Tensor ids(const std::vector<float>& logits, i64 vocab, std::vector<RowSampling> rows, DType type = DType::u8) {
    const i64 n = static_cast<i64>(logits.size()) / vocab, size = sizeof(RowSampling) / size_of(type);
    arena = Arena(backend.allocate(1 << 12));
    Context ctx{backend, arena, comm, {}};
    return ops::sample(ctx, Tensor(const_cast<float*>(logits.data()), DType::f32, {n, vocab}),
                       {Tensor(rows.data(), type, {static_cast<i64>(rows.size()), size}), {}});
  }
  CpuBackend backend{1};
  SingleCommunicator comm;
  Arena arena;
};

TEST(Sample, DrawingMarksRowsThatAreNotFinite) {
  const auto nan = static_cast<float>(kNan), inf = static_cast<float>(kInf);
  Drawing drawing;
  const Tensor ids =
      drawing.ids({1, 3, 2, 1, nan, 2, 5, 3, 2, inf, 3, 2, -inf, 3, 2}, 3, std::vector(5, RowSampling{{.top_k = 1}}));
  const auto* id = ids.as<std::int32_t>();
  EXPECT_EQ(std::vector(id, id + 5), (std::vector<std::int32_t>{1, -1, 0, -1, -1}));
}

TEST(Sample, RefusesRowsThatAreNotThose) {
  Drawing drawing;
  EXPECT_NO_THROW(drawing.ids({1, 3}, 2, std::vector<RowSampling>(1)));
  EXPECT_THROW(drawing.ids({1, 3}, 2, std::vector<RowSampling>(2)), Error);
  EXPECT_THROW(drawing.ids({1, 3}, 2, std::vector<RowSampling>(1), DType::i32), Error);
}

}  // namespace
}  // namespace fathom
