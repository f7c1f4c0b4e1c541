// Passes of more tokens than the second dimension of a grid has blocks: 65,535.
#include <numeric>

#include "cuda/twin.h"

namespace fathom::test {
namespace {

constexpr i64 kTokens = 70000;

class ManyTokens : public CudaTest {
 protected:
  // op, made of one side's tensors, on the CPU and on the GPU.
  template <typename F>
  void run(const F& op) {
    cpu_.run(op(false));
    gpu_->run(op(true));
  }
  static Tensor side(const Twin& x, bool device) { return device ? x.device : x.host; }
};

TEST_F(ManyTokens, Rows) {
  Twin table(*gpu_, {50, 8}, DType::bf16), ids(*gpu_, {kTokens}, DType::i32), y(*gpu_, {kTokens, 8}, DType::f32),
      gathered(*gpu_, {kTokens, 8}, DType::f32), gain(*gpu_, {8}, DType::f32);
  table.normal(random_), gain.normal(random_);
  ids.fill([](i64 i) { return static_cast<double>(i * 37 % 50); });
  run([&](bool d) { return op::Embedding{side(y, d), side(table, d), side(ids, d), 0}; });
  y.expect_equal();
  run([&](bool d) { return op::GatherRows{side(gathered, d), side(y, d), side(ids, d)}; });
  gathered.expect_equal();
  for (const DType type : {DType::f32, DType::bf16}) {
    Twin normed(*gpu_, {kTokens, 8}, type), copy(*gpu_, {kTokens, 8}, type), silu(*gpu_, {kTokens, 8}, type);
    run([&](bool d) { return op::RmsNorm{side(normed, d), side(y, d), {side(gain, d), 1e-6f}}; });
    normed.expect_same(2.02 * rounding_of(type) + 2e-5, 1e-30);
    run([&](bool d) { return op::Copy{side(copy, d), side(y, d)}; });
    copy.expect_equal();
    run([&](bool d) { return op::SiluMul{side(silu, d), side(copy, d), side(copy, d)}; });
    silu.expect_same(2.02 * rounding_of(type) + 1e-6, 1e-30);
    run([&](bool d) { return op::Add{side(copy, d), side(copy, d)}; });
    copy.expect_equal();
  }
}

TEST_F(ManyTokens, RopeCacheAndAttention) {
  for (const DType type : {DType::f32, DType::bf16}) {
    Twin x(*gpu_, {kTokens, 1, 8}, type), freqs(*gpu_, {2, 4, 2}, DType::f32), q(*gpu_, {kTokens, 1, 16}, type),
        cache(*gpu_, {kTokens / 16 + 1, 16, 24}, type), kv(*gpu_, {kTokens, 16}, type),
        o(*gpu_, {kTokens, 1, 16}, type), expanded(*gpu_, {kTokens, 1, 32}, type), key(*gpu_, {kTokens, 1, 24}, type),
        pe(*gpu_, {kTokens, 8}, type);
    x.normal(random_), freqs.normal(random_), kv.normal(random_), q.normal(random_), key.normal(random_);
    expanded.normal(random_), pe.normal(random_);
    const auto ints = [&](const Shape& shape, const std::function<double(i64)>& f) {
      Twin t(*gpu_, shape, DType::i32);
      t.fill(f);
      return t;
    };
    // Every token is a sequence of its own, whose only key it is.
    const auto index = [](i64 i) { return static_cast<double>(i); };
    const Twin positions = ints({kTokens}, [](i64) { return 0; }),
               slots = ints({kTokens}, [](i64 i) { return i / 16 * 16; }), starts = ints({kTokens + 1}, index),
               lens = ints({kTokens}, [](i64) { return 1; }), tables = ints({kTokens, 1}, [](i64 i) { return i / 16; });
    const auto sequences = [&](bool d) {
      Sequences s{side(positions, d), side(slots, d), side(starts, d), side(lens, d), side(starts, d), side(tables, d)};
      s.max_context = 1, s.total_context = kTokens;
      return s;
    };
    run([&](bool d) { return op::Rope{side(x, d), side(freqs, d), side(positions, d)}; });
    x.expect_same(2.02 * rounding_of(type), 4e-6);
    cache.normal(random_);
    const Twin own = ints({kTokens}, index);
    run([&](bool d) { return op::StoreLatent{{side(cache, d), 16}, side(kv, d), side(pe, d), side(own, d)}; });
    cache.expect_equal();
    run([&](bool d) {
      return op::AttendLatent{side(o, d), side(q, d), side(x, d), {side(cache, d), 16}, sequences(d), 0.3f};
    });
    o.expect_same(2.02 * rounding_of(type) + 1e-4, 1e-5);
    Twin values(*gpu_, {kTokens, 1, 16}, type);
    run([&](bool d) {
      return op::AttendExpanded{side(values, d), side(key, d), side(expanded, d), side(pe, d), sequences(d), 0.3f};
    });
    values.expect_same(2.02 * rounding_of(type) + 1e-4, 1e-5);
  }
}

TEST_F(ManyTokens, Experts) {
  const i64 experts = 8, top_k = 2, d = 8;
  Twin logits(*gpu_, {kTokens, experts}, DType::f32), weights(*gpu_, {kTokens, top_k}, DType::f32),
      indices(*gpu_, {kTokens, top_k}, DType::i32), x(*gpu_, {kTokens, d}, DType::bf16),
      rows(*gpu_, {kTokens * top_k, d}, DType::bf16), offsets(*gpu_, {experts + 1}, DType::i32),
      places(*gpu_, {kTokens, top_k}, DType::i32);
  logits.fill([](i64 i) { return static_cast<double>((i / 8 * 5 + i % 8 * 3) % 8) / 4; });
  x.normal(random_);
  run([&](bool g) {
    return op::Route{side(weights, g), side(indices, g), side(logits, g), {}, {top_k, 1, 1, true, true, 2.5f}};
  });
  indices.expect_equal();
  weights.expect_same(1e-5, 1e-7);
  const auto routed = [&](bool g) { return Routed{side(rows, g), side(offsets, g), side(places, g)}; };
  run([&](bool g) { return op::GroupByExpert{routed(g), side(x, g), side(indices, g), 0}; });
  offsets.expect_equal(), places.expect_equal(), rows.expect_equal();
  for (const i64 width : {i64{7}, d}) {
    Twin y(*gpu_, {kTokens, width}, DType::f32);
    run([&](bool g) {
      return op::Combine{side(y, g), side(rows, g).narrow(1, 0, width), routed(g), side(weights, g)};
    });
    y.expect_same(1e-5, 1e-5);
  }
}

TEST_F(ManyTokens, Products) {
  for (const Format* format : {&kF32, &kBf16, &kFp8Block128})
    for (const GemmMode mode : {GemmMode::bf16, GemmMode::fp8}) {
      const WeightTwin w(*gpu_, random_, *format, {8, 128});
      Twin x(*gpu_, {kTokens, 128}, DType::bf16), y(*gpu_, {kTokens, 8}, DType::f32);
      x.normal(random_);
      cpu_.run(op::Linear{y.host, x.host, w.host, mode});
      for (Backend* gpu : both()) {
        y.poison();
        gpu->run(op::Linear{y.device, x.device, w.device, mode});
        gpu->synchronize();
        y.expect_same(1e-3, 2e-2);
      }
    }
}

TEST_F(ManyTokens, Sampling) {
  Twin logits(*gpu_, {kTokens, 8}, DType::f32), rows(*gpu_, {kTokens, sizeof(RowSampling)}, DType::u8),
      ids(*gpu_, {kTokens}, DType::i32);
  logits.normal(random_, 3);
  for (i64 i = 0; i < kTokens; ++i) {
    RowSampling& row = static_cast<RowSampling*>(rows.host.data())[i];
    row = {};
    row.temperature = i % 2 == 0 ? 0 : 1;
    row.seed = i;
  }
  rows.push();
  run([&](bool d) { return op::Sample{side(ids, d), side(logits, d), {side(rows, d), {}}}; });
  ids.expect_equal();
  logits.fill([](i64 i) { return i / 8 % 3 == 1 && i % 8 == 5 ? std::numeric_limits<double>::infinity() : 1.0; });
  run([&](bool d) { return op::MarkNotFinite{side(ids, d), side(logits, d)}; });
  ids.expect_equal();
}

}  // namespace
}  // namespace fathom::test
