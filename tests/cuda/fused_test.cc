// The fused forms against the plain operations that they mean, on the GPU.
#include <thread>

#include "cuda/twin.h"
#include "ops/context.h"

namespace fathom::test {
namespace {

// With all kernels, and with what every GPU has.
class Fused : public CudaTest, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (gpu_ == nullptr) return;
    if (portable()) gpu_ = std::move(portable_);
    arena_ = Arena(gpu_->allocate(std::size_t{256} << 20));
  }
  bool portable() const { return GetParam(); }
  Context context(bool fused, GemmMode mode = GemmMode::bf16) {
    return {*gpu_, arena_, ranks_, {.gemm = mode, .fused = fused}};
  }

  std::vector<double> numbers(const Tensor& x) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(x.bytes()));
    gpu_->download(bytes.data(), x);
    return values(Tensor(bytes.data(), x.dtype(), x.shape()));
  }
  // The relative distance of two results of the same sums with different roundings of bf16 intermediates.
  void expect_near(const Tensor& a, const Tensor& b, double bound) {
    const auto x = numbers(a), y = numbers(b);
    double error = 0, size = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      error += (x[i] - y[i]) * (x[i] - y[i]);
      size += y[i] * y[i];
    }
    EXPECT_LE(std::sqrt(error), bound * std::sqrt(size)) << "of " << to_string(a.shape());
    EXPECT_GT(size, 0);
  }

  Arena arena_;
  SingleCommunicator ranks_;
};

constexpr i64 kTokens[] = {1, 2, 7, 8, 9, 16, 17, 33, 64, 65, 128, 130, 200, 256};
constexpr double kBound = 2 * 0x1p-8;  // two roundings to bf16

struct Case {
  const Format* format;
  GemmMode mode;
  i64 tokens;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const i64 t : kTokens) {
    for (const Format* format : {&kBf16, &kFp8Block128, &kFp8Block128Ue8m0}) all.push_back({format, GemmMode::bf16, t});
    for (const Format* format : {&kFp8Block128, &kFp8Block128Ue8m0}) all.push_back({format, GemmMode::fp8, t});
  }
  return all;
}

std::string describe(const Case& c) {
  return fmt::format("{} tokens {} {}", c.tokens, c.format->name(), c.mode == GemmMode::fp8 ? "fp8" : "bf16");
}

TEST_P(Fused, NormLinearAndLinearAdd) {
  for (const i64 in : {192, 768})  // one and a half units, and whole ones
    for (const Case& c : cases()) {
      const auto& [format, mode, t] = c;
      if (mode == GemmMode::fp8 && in % 128 != 0) continue;
      SCOPED_TRACE(fmt::format("{} in {}", describe(c), in));
      const WeightTwin a(*gpu_, random_, *format, {200, in}), b(*gpu_, random_, *format, {72, in});
      Twin x(*gpu_, {t, in}, DType::f32), gain(*gpu_, {in}, DType::f32), y(*gpu_, {t, in}, DType::bf16);
      x.normal(random_, 3), gain.normal(random_), y.normal(random_);
      const ArenaScope scope(arena_);
      Context fused = context(true, mode), plain = context(false, mode);
      const Normed normed{x.device, {gain.device, 1e-6f}};
      const auto got = ops::linear(fused, normed, {{a.device}, {b.device, DType::f32}});
      const auto expected = ops::linear(plain, normed, {{a.device}, {b.device, DType::f32}});
      expect_near(got[0], expected[0], kBound);
      expect_near(got[1], expected[1], kBound);
      Twin h(*gpu_, {t, 200}, DType::f32), g(*gpu_, {t, 200}, DType::f32);
      h.normal(random_);
      gpu_->run(op::Copy{g.device, h.device});
      ops::linear_add_norm(fused, h.device, y.device, a.device, {});
      ops::linear_add_norm(plain, g.device, y.device, a.device, {});
      // Beyond 64 rows the two may be different kernels, and tensor cores keep few bits of a sum of codes.
      expect_near(h.device, g.device, t > 64 && mode == GemmMode::fp8 ? kBound : 1e-5);
    }
}

class FusedAttention : public Fused {
 protected:
  // t tokens of as many sequences, at different places up to `longest`.
  void check(i64 heads, i64 t, i64 longest) {
    SCOPED_TRACE(fmt::format("{} tokens {} heads up to {} keys", t, heads, longest));
    const i64 width = (longest + 63) / 64, blocks = t * width;
    Twin q(*gpu_, {t, heads, 192}, DType::bf16), kv(*gpu_, {t, 576}, DType::bf16);
    Twin norm(*gpu_, {512}, DType::f32), freqs(*gpu_, {longest, 32, 2}, DType::f32);
    Twin wk(*gpu_, {heads, 512, 128}, DType::bf16), wv(*gpu_, {heads, 128, 512}, DType::bf16);
    Twin cache(*gpu_, {blocks, 64, 576}, DType::bf16);
    const auto ints = [&](const Shape& shape, const std::function<double(i64)>& f) {
      Twin x(*gpu_, shape, DType::i32);
      x.fill(f);
      return x;
    };
    q.normal(random_), kv.normal(random_), norm.normal(random_), wk.normal(random_, 0.05), wv.normal(random_, 0.05);
    cache.normal(random_);
    freqs.fill([](i64 i) { return i % 2 == 0 ? std::cos(i * 0.01) : std::sin((i - 1) * 0.01); });
    const auto position = [&](i64 i) { return static_cast<double>((i * 41 + longest - 1) % longest); };
    const Twin positions = ints({t}, position), starts = ints({t + 1}, [](i64 i) { return i; }),
               lens = ints({t}, [&](i64 i) { return position(i) + 1; }),
               tables = ints({t, width}, [](i64 i) { return i; }),
               slots = ints({t}, [&](i64 i) { return static_cast<double>(i * width * 64) + position(i); });
    const Sequences all{.positions = positions.device,
                        .slots = slots.device,
                        .seq_starts = starts.device,
                        .context_lens = lens.device,
                        .context_starts = starts.device,
                        .block_tables = tables.device,
                        .max_context = longest};
    const LatentAttention args{{norm.device, 1e-6f}, freqs.device, 0.07f, {}, wk.device, wv.device};
    const ArenaScope scope(arena_);
    Context fused = context(true), plain = context(false);
    const Tensor got = ops::attention(fused, q.device, kv.device, args, {cache.device, 512}, {&all, 1});
    const Tensor replayed = arena_.empty(got.shape(), DType::bf16);
    const auto again = [&] {
      gpu_->run(op::LatentAttention{replayed, q.device, kv.device, args, {cache.device, 512}, all});
    };
    again();  // the backend's own scratch has its size then
    gpu_->capture(again)->replay();
    EXPECT_EQ(numbers(got), numbers(replayed)) << "a recorded pass gives other bits";
    const Tensor cached = arena_.empty({blocks * 64, 576}, DType::bf16);
    gpu_->run(op::Copy{cached, cache.device.view({blocks * 64, 576})});
    const Tensor expected = ops::attention(plain, q.device, kv.device, args, {cache.device, 512}, {&all, 1});
    expect_near(got, expected, 2 * kBound);
    expect_near(cached, cache.device.view({blocks * 64, 576}), 1e-3);
  }
};

TEST_P(FusedAttention, FewTokens) {
  for (const i64 heads : {16, 40, 128})
    for (const auto& [t, longest] : {std::pair<i64, i64>{1, 1}, {1, 100}, {1, 2100}, {3, 190}, {9, 190}})
      if (heads < 128 || t == 1) check(heads, t, longest);
}

TEST_P(FusedAttention, ManyTokens) {
  for (const auto& [t, longest] : {std::pair<i64, i64>{8, 2100}, {64, 190}, {150, 190}}) check(16, t, longest);
}

struct Sizes {
  i64 dim, inter, experts, shared;
};

// The weights of a layer with experts, and a gate whose logit e is the token's entry e.
class Experts {
 public:
  Experts(Backend& gpu, Random& random, const Format& format, const Sizes& n)
      : sizes(n),
        norm_(gpu, {n.dim}, DType::f32),
        bias_(gpu, {n.experts}, DType::f32),
        gate_(gpu, {n.experts, n.dim}, DType::bf16),
        w1_(gpu, random, format, {n.experts, n.inter, n.dim}),
        w2_(gpu, random, format, {n.experts, n.dim, n.inter}),
        w3_(gpu, random, format, {n.experts, n.inter, n.dim}),
        s1_(gpu, random, format, {n.shared, n.dim}),
        s2_(gpu, random, format, {n.dim, n.shared}),
        s3_(gpu, random, format, {n.shared, n.dim}) {
    std::normal_distribution<double> draw;
    norm_.fill([&](i64 i) { return i < n.experts ? 1 : draw(random); });
    bias_.fill([](i64 i) { return 0.01 * static_cast<double>(i % 5); });
    gate_.fill([&](i64 i) { return i / n.dim == i % n.dim ? 1 : 0; });
  }
  ExpertsLayer layer(const RouteArgs& route, bool biased) const {
    return {.gate = {{gate_.device, {}, &kBf16}, biased ? bias_.device : Tensor{}, route},
            .experts = {w1_.device, w2_.device, w3_.device},
            .first = 0,
            .shared = {s1_.device, s2_.device, s3_.device}};
  }
  Norm norm() const { return {norm_.device, 1e-6f}; }

  Sizes sizes;

 private:
  Twin norm_, bias_, gate_;
  WeightTwin w1_, w2_, w3_, s1_, s2_, s3_;
};

class FusedExperts : public Fused {
 protected:
  void check(const Experts& experts, const RouteArgs& route, bool biased, i64 t, GemmMode mode) {
    const i64 dim = experts.sizes.dim, count = experts.sizes.experts;
    Twin h(*gpu_, {t, dim}, DType::f32), g(*gpu_, {t, dim}, DType::f32), again(*gpu_, {t, dim}, DType::f32);
    // Logits stand far apart: the two forms round differently, and a changed choice is another sum.
    std::normal_distribution<double> draw;
    h.fill([&](i64 i) {
      const i64 row = i / dim, at = i % dim;
      return at < count ? static_cast<double>((at * 13 + row * 7) % count) * 4.375 / static_cast<double>(count) - 2
                        : draw(random_);
    });
    gpu_->run(op::Copy{g.device, h.device});
    gpu_->run(op::Copy{again.device, h.device});
    const ExpertsLayer layer = experts.layer(route, biased);
    const Norm norm = experts.norm();
    ASSERT_TRUE(gpu_->try_run(op::Experts{h.device, h.device, norm, layer, true, mode}));
    gpu_->capture([&] { gpu_->try_run(op::Experts{again.device, again.device, norm, layer, true, mode}); })->replay();
    EXPECT_EQ(numbers(h.device), numbers(again.device)) << "a recorded pass gives other bits";
    const ArenaScope scope(arena_);
    Context ctx = context(false, mode);
    ops::experts_add_norm(ctx, g.device, {g.device, norm}, layer, {});
    // Codes of hidden values may fall to the other side of a rounding: 2^-4 of few of them.
    expect_near(h.device, g.device, mode == GemmMode::fp8 ? 6 * kBound : 3 * kBound);
  }
};

// A rank's part: some of the experts, perhaps fewer than a token chooses, and a sum that is not added to anything.
TEST_P(FusedExperts, SomeOfTheExperts) {
  for (const auto& [format, local, t] : {std::tuple<const Format*, i64, i64>{&kBf16, 13, 1},
                                         {&kBf16, 13, 5},
                                         {&kBf16, 13, 20},
                                         {&kBf16, 13, 130},
                                         {&kFp8Block128, 13, 1},
                                         {&kFp8Block128, 13, 5},
                                         {&kFp8Block128, 13, 20},
                                         {&kFp8Block128, 13, 130},
                                         {&kBf16, 4, 1},
                                         {&kBf16, 4, 5},
                                         {&kBf16, 4, 20},
                                         {&kFp8Block128, 1, 1},
                                         {&kFp8Block128, 1, 5},
                                         {&kFp8Block128, 2, 20},
                                         {&kBf16, 3, 130}}) {
    SCOPED_TRACE(fmt::format("{} tokens {} {} experts", t, format->name(), local));
    const Experts experts(*gpu_, random_, *format, {320, 144, 35, 272});
    ExpertsLayer layer = experts.layer({6, 1, 1, true, true, 2.5f}, true);
    layer.first = 11;
    for (Weight* w : {&layer.experts.w1, &layer.experts.w2, &layer.experts.w3}) {
      w->data = w->data.narrow(0, 11, local);
      if (w->scale.defined()) w->scale = w->scale.narrow(0, 11, local);
    }
    Twin h(*gpu_, {t, 320}, DType::f32), y(*gpu_, {t, 320}, DType::f32), z(*gpu_, {t, 320}, DType::f32);
    h.normal(random_), y.normal(random_), z.fill([](i64) { return 0; });
    h.fill([&](i64 i) {
      return i % 320 < 35 ? static_cast<double>((i % 320 * 13 + i / 320 * 7) % 35) / 8 - 2 : get(h.host, i);
    });
    ASSERT_TRUE(gpu_->try_run(op::Experts{y.device, h.device, experts.norm(), layer, false, GemmMode::bf16}));
    const ArenaScope scope(arena_);
    Context ctx = context(false);
    ops::experts_add_norm(ctx, z.device, {h.device, experts.norm()}, layer, {});
    expect_near(y.device, z.device, 3 * kBound);
  }
}

TEST_P(FusedExperts, AllFormatsAndTokens) {
  for (const Format* format : {&kBf16, &kFp8Block128, &kFp8Block128Ue8m0})
    for (const GemmMode mode : {GemmMode::bf16, GemmMode::fp8}) {
      if (mode == GemmMode::fp8 && !format->has_scale()) continue;
      const Experts experts(*gpu_, random_, *format,
                            mode == GemmMode::fp8 ? Sizes{384, 384, 35, 128}
                            : format->has_scale() ? Sizes{320, 144, 35, 272}
                                                  : Sizes{320, 136, 35, 272});
      for (const i64 t : kTokens)
        for (const bool groups : {false, true}) {
          SCOPED_TRACE(fmt::format("{} groups {}", describe({format, mode, t}), groups));
          check(experts, {6, groups ? 7 : 1, groups ? 4 : 1, groups, groups, 2.5f}, groups, t, mode);
        }
    }
}

// More tokens than the kernels for decode take: products of one input share its codes.
TEST_P(Fused, ManyTokens) {
  const i64 t = 130, in = 768;
  for (const Format* format : {&kBf16, &kFp8Block128, &kFp8Block128Ue8m0})
    for (const GemmMode mode : {GemmMode::bf16, GemmMode::fp8}) {
      SCOPED_TRACE(fmt::format("{} mode {}", format->name(), static_cast<int>(mode)));
      const WeightTwin a(*gpu_, random_, *format, {200, in}), b(*gpu_, random_, *format, {256, in}),
          w1(*gpu_, random_, *format, {3, 144, in}), w3(*gpu_, random_, *format, {3, 144, in});
      Twin x(*gpu_, {t, in}, DType::f32), gain(*gpu_, {in}, DType::f32), y(*gpu_, {t, in}, DType::bf16),
          offsets(*gpu_, {4}, DType::i32), h(*gpu_, {t, 200}, DType::f32), g(*gpu_, {t, 200}, DType::f32);
      x.normal(random_, 3), gain.normal(random_), y.normal(random_), h.normal(random_);
      offsets.fill([](i64 i) { return std::vector<double>{0, 90, 90, 130}[static_cast<std::size_t>(i)]; });
      gpu_->run(op::Copy{g.device, h.device});
      const ArenaScope scope(arena_);
      Context fused = context(true), plain = context(false);
      fused.options.gemm = plain.options.gemm = mode;
      const Normed normed{x.device, {gain.device, 1e-6f}};
      const auto got = ops::linear(fused, normed, {{a.device}, {b.device, DType::f32}});
      const auto expected = ops::linear(plain, normed, {{a.device}, {b.device, DType::f32}});
      expect_near(got[0], expected[0], kBound);
      expect_near(got[1], expected[1], kBound);
      expect_near(ops::grouped_swiglu(fused, y.device, w1.device, w3.device, offsets.device),
                  ops::grouped_swiglu(plain, y.device, w1.device, w3.device, offsets.device), kBound);
      ops::linear_add_norm(fused, h.device, y.device, a.device, {});
      ops::linear_add_norm(plain, g.device, y.device, a.device, {});
      expect_near(h.device, g.device, 1e-5);
    }
}

// Long chunks: keys and values of each head, or attention over the latent.
TEST_P(Fused, PromptAttention) {
  for (const i64 heads : {2, 16}) {
    SCOPED_TRACE(fmt::format("{} heads", heads));
    const i64 cached[] = {0, 70, 300}, fresh[] = {130, 257, 65}, block = 64, width = 8, t = 130 + 257 + 65;
    std::vector<double> positions, slots, starts{0}, lens, totals{0}, tables;
    for (i64 s = 0; s < 3; ++s) {
      for (i64 i = 0; i < width; ++i) tables.push_back(static_cast<double>((s * width + i) * 5 % 24));
      for (i64 i = cached[s]; i < cached[s] + fresh[s]; ++i) {
        positions.push_back(static_cast<double>(i));
        const double first = tables[static_cast<std::size_t>(s * width + i / block)];
        slots.push_back(first * block + static_cast<double>(i % block));
      }
      starts.push_back(static_cast<double>(positions.size()));
      lens.push_back(static_cast<double>(cached[s] + fresh[s]));
      totals.push_back(totals.back() + lens.back());
    }
    const auto ints = [&](const Shape& shape, const std::vector<double>& values) {
      Twin x(*gpu_, shape, DType::i32);
      x.fill([&](i64 i) { return values[static_cast<std::size_t>(i)]; });
      return x;
    };
    const Twin p = ints({t}, positions), sl = ints({t}, slots), st = ints({4}, starts), le = ints({3}, lens),
               co = ints({4}, totals), ta = ints({3, width}, tables);
    Sequences expanded{p.device, sl.device, st.device, le.device, co.device, ta.device};
    expanded.total_context = static_cast<i64>(totals.back());
    expanded.max_context = 365;
    const Sequences latent = expanded;
    expanded.expanded = true;
    Twin q(*gpu_, {t, heads, 192}, DType::bf16), kv(*gpu_, {t, 576}, DType::bf16), norm(*gpu_, {512}, DType::f32),
        freqs(*gpu_, {400, 32, 2}, DType::f32), wk(*gpu_, {heads, 512, 128}, DType::bf16),
        wv(*gpu_, {heads, 128, 512}, DType::bf16), cache(*gpu_, {24, block, 576}, DType::bf16),
        q2(*gpu_, {t, heads, 192}, DType::bf16), kv2(*gpu_, {t, 576}, DType::bf16);
    q.normal(random_), kv.normal(random_), norm.normal(random_), wk.normal(random_, 0.05), wv.normal(random_, 0.05);
    cache.normal(random_);
    freqs.fill([](i64 i) { return i % 2 == 0 ? std::cos(i * 0.01) : std::sin((i - 1) * 0.01); });
    gpu_->run(op::Copy{q2.device, q.device});  // both forms rotate in place
    gpu_->run(op::Copy{kv2.device, kv.device});
    const LatentAttention args{{norm.device, 1e-6f}, freqs.device, 0.07f, {}, wk.device, wv.device};
    const ArenaScope scope(arena_);
    Context ctx = context(true);
    const Tensor got = ops::attention(ctx, q.device, kv.device, args, {cache.device, 512}, {&expanded, 1});
    const Tensor after = arena_.empty({24 * block, 576}, DType::bf16);
    gpu_->run(op::Copy{after, cache.device.view({24 * block, 576})});
    const Tensor expected = ops::attention(ctx, q2.device, kv2.device, args, {cache.device, 512}, {&latent, 1});
    expect_near(got, expected, 2 * kBound);
    expect_near(after, cache.device.view({24 * block, 576}), 1e-3);
  }
}

TEST_P(FusedExperts, ManyExpertsInGroups) {
  for (const auto& [count, groups] : {std::pair<i64, i64>{64, 1}, {256, 8}, {160, 8}, {300, 10}}) {
    const Experts experts(*gpu_, random_, kBf16, {320, 16, count, 40});
    for (const i64 t : {1, 3, 20}) {
      SCOPED_TRACE(fmt::format("{} tokens {} experts", t, count));
      check(experts, {8, groups, std::min<i64>(groups, 4), true, true, 2.5f}, true, t, GemmMode::bf16);
    }
  }
}

TEST_P(Fused, CapturedPassGivesTheSameBits) {
  const WeightTwin w(*gpu_, random_, kBf16, {256, 256});
  Twin x(*gpu_, {3, 256}, DType::bf16), h(*gpu_, {3, 256}, DType::f32), g(*gpu_, {3, 256}, DType::f32);
  x.normal(random_);
  const auto pass = [&](const Tensor& to) {
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(gpu_->try_run(op::LinearAdd{to, x.device, w.device, GemmMode::bf16}));
  };
  pass(h.device);
  const auto graph = gpu_->capture([&] { pass(g.device); });
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(graph->operations(), 3);
  graph->replay();
  EXPECT_EQ(numbers(h.device), numbers(g.device));
  EXPECT_THROW(gpu_->capture([&] { gpu_->allocate(100); }), Error);
  gpu_->synchronize();  // the stream is usable again
}

// Parts of the inner dimension are added up by clusters of blocks: in the same order each time.
TEST_P(Fused, RecordedProductsOfAFewDozenRowsGiveTheSameBits) {
  for (const Format* format : {&kBf16, &kFp8Block128})
    for (const GemmMode mode : {GemmMode::bf16, GemmMode::fp8})
      for (const i64 t : {8, 40, 100, 200}) {
        if (portable() && t > 64) continue;  // no kernel of every GPU adds that many rows to a sum
        SCOPED_TRACE(describe({format, mode, t}));
        const WeightTwin w(*gpu_, random_, *format, {528, 4096});
        Twin x(*gpu_, {t, 4096}, DType::bf16), h(*gpu_, {t, 528}, DType::f32), g(*gpu_, {t, 528}, DType::f32);
        x.normal(random_), h.fill([](i64) { return 0; }), g.fill([](i64) { return 0; });
        const auto pass = [&](const Tensor& to) {
          for (int i = 0; i < 3; ++i) ASSERT_TRUE(gpu_->try_run(op::LinearAdd{to, x.device, w.device, mode}));
        };
        for (int i = 0; i < 4; ++i) pass(h.device);
        const auto graph = gpu_->capture([&] { pass(g.device); });
        for (int i = 0; i < 4; ++i) graph->replay();
        EXPECT_EQ(numbers(h.device), numbers(g.device));
      }
}

TEST_P(Fused, AdvanceMakesTheNextStep) {
  const auto ints = [&](const Shape& shape, const std::function<double(i64)>& f) {
    Twin x(*gpu_, shape, DType::i32);
    x.fill(f);
    return x;
  };
  const Twin ids = ints({3}, [](i64) { return 5; }), positions = ints({3}, [](i64 i) { return 14 + i; }),
             slots = ints({3}, [](i64 i) { return i == 2 ? -1 : 14 + i; }),
             lens = ints({3}, [](i64 i) { return 15 + i; }), tables = ints({3, 4}, [](i64 i) { return 10 + i; }),
             drawn = ints({3}, [](i64 i) { return 70 + i; }), log = ints({3, 3}, [](i64) { return 0; });
  Twin rows(*gpu_, {3, sizeof(RowSampling)}, DType::u8);
  RowSampling sampling[3];
  for (int i = 0; i < 3; ++i) sampling[i].step = i;
  gpu_->upload(rows.device, sampling);
  const Sequences all{.positions = positions.device,
                      .slots = slots.device,
                      .seq_starts = {},
                      .context_lens = lens.device,
                      .context_starts = {},
                      .block_tables = tables.device};
  const Batch batch{.ids = ids.device, .logit_rows = {}, .runs = {all}};
  ASSERT_TRUE(gpu_->try_run(op::Advance{batch, drawn.device, {rows.device, {}}, log.device, 16}));
  EXPECT_EQ(numbers(ids.device), (std::vector<double>{70, 71, 5}));
  EXPECT_EQ(numbers(positions.device), (std::vector<double>{15, 16, 16}));
  EXPECT_EQ(numbers(slots.device), (std::vector<double>{10 * 16 + 15, 15 * 16 + 0, -1}));
  gpu_->download(sampling, rows.device);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sampling[i].step, std::min(i + 1, 2));
  EXPECT_EQ(numbers(log.device), (std::vector<double>{1, 0, 0, 70, 71, 72, 0, 0, 0}));
}

// What one thread's launches ask for does not take away what another's are allowed.
TEST_P(Fused, ThreadsShareADevice) {
  const auto work = [&](i64 tokens) {
    CudaBackend gpu(0, portable());
    Random random(11);
    const i64 in = 4608;
    const WeightTwin w(gpu, random, kBf16, {64, in});
    Twin x(gpu, {tokens, in}, DType::f32), gain(gpu, {in}, DType::f32), y(gpu, {tokens, 64}, DType::f32);
    const Tensor ys[] = {y.device};
    const Weight ws[] = {w.device};
    for (int i = 0; i < 3000; ++i) gpu.run(op::NormLinear{ys, {x.device, {gain.device, 1e-6f}}, ws, GemmMode::bf16});
    gpu.synchronize();
  };
  std::string error;
  std::thread other([&] {
    try {
      work(8);  // 72 KiB of rows in shared memory
    } catch (const std::exception& e) {
      error = e.what();
    }
  });
  EXPECT_NO_THROW(work(5));  // 45 KiB, and the sums
  other.join();
  EXPECT_EQ(error, "");
}

std::string device_of(const ::testing::TestParamInfo<bool>& info) { return info.param ? "portable" : "all"; }
INSTANTIATE_TEST_SUITE_P(Kernels, Fused, ::testing::Bool(), device_of);
INSTANTIATE_TEST_SUITE_P(Kernels, FusedAttention, ::testing::Bool(), device_of);
INSTANTIATE_TEST_SUITE_P(Kernels, FusedExperts, ::testing::Bool(), device_of);

}  // namespace
}  // namespace fathom::test
