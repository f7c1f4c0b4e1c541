// Routing, grouping, combining and sampling: GPU against CPU.
#include <limits>

#include "cuda/twin.h"

namespace fathom::test {
namespace {

TEST_F(CudaTest, Route) {
  struct Case {
    i64 experts, top_k, groups, kept;
    bool sigmoid, normalize, bias;
  };
  for (const Case& c : {Case{1, 1, 1, 1, false, false, false}, Case{7, 3, 1, 1, false, true, false},
                        Case{64, 6, 1, 1, false, false, false}, Case{65, 6, 1, 1, true, true, true},
                        Case{160, 6, 8, 3, false, false, false}, Case{256, 8, 8, 4, true, true, true},
                        Case{128, 8, 4, 2, true, true, false}, Case{129, 129, 1, 1, true, true, true}})
    for (const i64 tokens : {0, 1, 5, 4096}) {
      SCOPED_TRACE(fmt::format("{} experts, {} tokens", c.experts, tokens));
      if (tokens == 4096 && c.experts == 129) continue;
      Twin logits(*gpu_, {tokens, c.experts}, DType::f32), bias(*gpu_, {c.experts}, DType::f32);
      Twin weights(*gpu_, {tokens, c.top_k}, DType::f32), indices(*gpu_, {tokens, c.top_k}, DType::i32);
      // Multiples of 1/64 a row apart: near ties would depend on the last bit of exp, equal values on the order alone.
      std::uniform_int_distribution<int> draw(-200, 200);
      logits.fill([&](i64 i) {
        return i % 97 == 3 && tokens == 5 ? std::numeric_limits<double>::quiet_NaN() : draw(random_) / 64.0;
      });
      bias.fill([&](i64) { return draw(random_) / 4096.0; });
      if (c.bias) logits.fill([&](i64) { return draw(random_) / 64.0; });
      const RouteArgs args{c.top_k, c.groups, c.kept, c.sigmoid, c.normalize, 2.5f};
      cpu_.run(op::Route{weights.host, indices.host, logits.host, c.bias ? bias.host : Tensor{}, args});
      gpu_->run(op::Route{weights.device, indices.device, logits.device, c.bias ? bias.device : Tensor{}, args});
      if (tokens == 5 && !c.sigmoid) continue;  // softmax of a NaN: any answer, but no crash
      indices.expect_equal();
      weights.expect_same(1e-5, 1e-7);
    }
}

TEST_F(CudaTest, GroupAndCombine) {
  for (const DType type : {DType::f32, DType::bf16})
    for (const i64 experts : {1, 7, 63, 64, 65, 128, 129})
      for (const i64 tokens : {0, 1, 33, 4096}) {
        const i64 top_k = std::min<i64>(experts, 6), d = tokens == 4096 ? 40 : 77, first = experts / 3,
                  local = experts - first - experts / 4;
        SCOPED_TRACE(fmt::format("{} experts, {} tokens", experts, tokens));
        Twin x(*gpu_, {tokens, d}, type, 8), indices(*gpu_, {tokens, top_k}, DType::i32),
            weights(*gpu_, {tokens, top_k}, DType::f32);
        Twin rows(*gpu_, {tokens * top_k, d}, type), offsets(*gpu_, {local + 1}, DType::i32),
            places(*gpu_, {tokens, top_k}, DType::i32);
        x.normal(random_), weights.normal(random_);
        std::vector<int> ids(static_cast<std::size_t>(experts));
        for (i64 e = 0; e < experts; ++e) ids[static_cast<std::size_t>(e)] = static_cast<int>(e);
        indices.fill([&](i64 i) {
          if (i % top_k == 0) std::shuffle(ids.begin(), ids.end(), random_);
          return ids[static_cast<std::size_t>(i % top_k)];
        });
        const Routed on_cpu{rows.host, offsets.host, places.host}, on_gpu{rows.device, offsets.device, places.device};
        cpu_.run(op::GroupByExpert{on_cpu, x.host, indices.host, first});
        gpu_->run(op::GroupByExpert{on_gpu, x.device, indices.device, first});
        offsets.expect_equal();
        places.expect_equal();
        rows.expect_equal();
        Twin y(*gpu_, {tokens, d}, DType::f32);
        cpu_.run(op::Combine{y.host, rows.host, on_cpu, weights.host});
        gpu_->run(op::Combine{y.device, rows.device, on_gpu, weights.device});
        y.expect_same(1e-6, 1e-5);
      }
}

TEST_F(CudaTest, Sample) {
  const i64 n = 64, vocab = 10007;
  Twin logits(*gpu_, {n, vocab}, DType::f32), rows(*gpu_, {n, sizeof(RowSampling)}, DType::u8),
      seen(*gpu_, {n, (vocab + 7) / 8}, DType::u8), ids(*gpu_, {n}, DType::i32);
  std::normal_distribution<double> draw(0, 3);
  logits.fill([&](i64 i) {
    const i64 row = i / vocab;
    if (row == 5) return -std::numeric_limits<double>::infinity();
    if (row % 8 == 6) return std::floor(draw(random_));  // many equal values
    return i % 501 == 7 ? std::numeric_limits<double>::quiet_NaN() : draw(random_);
  });
  for (i64 i = 0; i < n; ++i) {
    RowSampling& row = static_cast<RowSampling*>(rows.host.data())[i];
    row = {};
    row.temperature = i % 5 == 0 ? 0 : 0.25f * static_cast<float>(i % 7);
    row.top_k = static_cast<std::int32_t>(i % 3 == 0 ? 0 : i % 3 == 1 ? 50 : i);
    row.top_p = i % 2 == 0 ? 1 : 0.05f + 0.9f * static_cast<float>(i) / 64;
    row.min_p = i % 4 == 3 ? 0.05f : 0;
    row.repetition_penalty = i % 6 == 5 ? 1.3f : 1;
    row.seed = i * i - 100;
    row.step = i * 3;
  }
  rows.push();
  seen.fill([](i64 i) { return static_cast<double>(i * 31 % 256); });
  cpu_.run(op::Sample{ids.host, logits.host, {rows.host, seen.host}});
  gpu_->run(op::Sample{ids.device, logits.device, {rows.device, seen.device}});
  ids.expect_equal();
}

}  // namespace
}  // namespace fathom::test
