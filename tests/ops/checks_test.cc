// What operations refuse before a backend sees it, the types of what they give, and what optional ones mean.
#include <gtest/gtest.h>

#include <thread>

#include "backends/cpu/cpu_backend.h"
#include "ops/context.h"
#include "ops/trace.h"
#include "support/host_tensor.h"
#include "support/reference.h"

namespace fathom::test {
namespace {

class Checks : public ::testing::Test {
 protected:
  Tensor tensor(const Shape& shape, DType dtype = DType::bf16) { return inputs_.empty(shape, dtype); }
  Weight weight(i64 out, i64 in) { return {tensor({out, in}), {}, &kBf16}; }
  // The operation is refused, in a line that holds `text`.
  template <typename Op>
  void refuses(const std::string& text, Op&& op) {
    try {
      op();
      ADD_FAILURE() << "not refused: " << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  }

  Arena inputs_, arena_;  // they measure only
  TraceBackend nothing_;
  SingleCommunicator ranks_;
  Context ctx_{nothing_, arena_, ranks_, {}};
};

TEST_F(Checks, ShapesAndTypesAreRefusedByName) {
  const Tensor x = tensor({5, 64}), ids = tensor({5}, DType::i32), h = tensor({5, 64}, DType::f32);
  const Weight w = weight(32, 64), narrow = weight(32, 48);
  const Weight stack{tensor({3, 32, 64}), {}, &kBf16}, stack2{tensor({3, 32, 48}), {}, &kBf16};
  refuses("embedding: ids is bf16", [&] { ops::embedding(ctx_, x, tensor({5}), 0); });
  refuses("embedding: table has shape [64]", [&] { ops::embedding(ctx_, tensor({64}), ids, 0); });
  refuses("gather_rows: rows is", [&] { ops::gather_rows(ctx_, x, tensor({5})); });
  refuses("add_", [&] { ops::add_(ctx_, h, tensor({5, 63}, DType::f32)); });
  refuses("rms_norm: gain has shape [63]", [&] { ops::apply(ctx_, {x, {tensor({63}, DType::f32), 1e-6f}}); });
  refuses("rms_norm: gain is bf16", [&] { ops::apply(ctx_, {x, {tensor({64}), 1e-6f}}); });
  refuses("silu_mul: b has shape [4, 64]", [&] { ops::silu_mul(ctx_, x, tensor({4, 64})); });
  refuses("linear: x has shape [5, 64], expected [5, 48]", [&] { ops::linear(ctx_, x, narrow); });
  refuses("linear: weight has shape [3, 32, 64]", [&] { ops::linear(ctx_, x, stack); });
  refuses("grouped_linear: x has shape [5, 64], expected [5, 48]",
          [&] { ops::grouped_linear(ctx_, x, stack2, tensor({4}, DType::i32)); });
  refuses("grouped_linear: offsets has shape [3]",
          [&] { ops::grouped_linear(ctx_, x, stack, tensor({3}, DType::i32)); });
  refuses("head_matmul: x has shape", [&] {
    ops::head_matmul(ctx_, tensor({5, 2, 8}), tensor({5, 2, 16}), tensor({2, 8, 8}));
  });
  refuses("head_matmul: y has shape", [&] {
    ops::head_matmul(ctx_, tensor({5, 2, 9}), tensor({5, 2, 8}), tensor({2, 8, 8}));
  });
  refuses("linear_add_norm: h has shape", [&] { ops::linear_add_norm(ctx_, h, x, w, {}); });
  refuses("combine: weights has shape", [&] {
    ops::combine(ctx_, x, {x, tensor({4}, DType::i32), tensor({5, 2}, DType::i32)}, tensor({5, 3}, DType::f32));
  });
  refuses("2 experts are too few to choose 3", [&] { ops::route(ctx_, x, {weight(2, 64), {}, {.top_k = 3}}); });
  refuses("route: bias has shape [31]", [&] {
    ops::route(ctx_, x, {weight(32, 64), tensor({31}, DType::f32), {.top_k = 3}});
  });
}

TEST_F(Checks, QuantisedActivationsNeedWholeBlocks) {
  ctx_.options.gemm = GemmMode::fp8;
  const Weight w{tensor({32, 200}, DType::e4m3), tensor({1, 2}, DType::f32), &kFp8Block128};
  refuses("divisible by block_size (block_size=128); it is 200", [&] { ops::linear(ctx_, tensor({5, 200}), w); });
}

TEST_F(Checks, ResultsHaveTheActivationTypeOrTheOneThatWasAskedFor) {
  const Tensor x = tensor({5, 64}), h = tensor({5, 64}, DType::f32);
  const Norm norm{tensor({64}, DType::f32), 1e-6f};
  const Weight w = weight(32, 64);
  for (const DType compute : {DType::bf16, DType::f32}) {
    ctx_.options.compute = compute;
    EXPECT_EQ(ops::apply(ctx_, {h, norm}).dtype(), compute);
    EXPECT_EQ(ops::silu_mul(ctx_, x, x).dtype(), compute);
    const auto both = ops::linear(ctx_, {h, norm}, {{w}, {w, DType::f32}});
    EXPECT_EQ(both[0].dtype(), compute);
    EXPECT_EQ(both[1].dtype(), DType::f32);
    EXPECT_EQ(ops::embedding(ctx_, x, tensor({3}, DType::i32), 0).dtype(), DType::f32);
    const ops::Routing routing = ops::route(ctx_, x, {w, {}, {.top_k = 2}});
    EXPECT_EQ(routing.weights.dtype(), DType::f32);
    EXPECT_EQ(routing.indices.dtype(), DType::i32);
    EXPECT_EQ(ops::gather_rows(ctx_, h, tensor({2}, DType::i32)).dtype(), DType::f32);
  }
  EXPECT_EQ(ops::apply(ctx_, x).data(), x.data()) << "without a norm nothing is copied";
}

// Which runs of sequences attend over expanded keys.
TEST(AttentionRuns, BySequence) {
  using Shapes = std::vector<std::tuple<i64, i64, i64, i64, i64, bool>>;
  const auto runs = [](const std::vector<std::int32_t>& fresh, const std::vector<std::int32_t>& context, i64 from) {
    std::vector<std::int32_t> starts{0};
    for (const std::int32_t n : fresh) starts.push_back(starts.back() + n);
    Shapes all;
    for (const ops::RunShape& r : ops::attention_runs(starts, context, from)) {
      EXPECT_GE(r.total_context, r.max_context);
      all.emplace_back(r.first, r.count, r.first_token, r.tokens, r.total_context, r.expanded);
    }
    return all;
  };
  EXPECT_EQ(runs({1, 1, 1}, {5, 9, 2}, 64), (Shapes{{0, 3, 0, 3, 16, false}}));
  EXPECT_EQ(runs({1, 63, 64, 500}, {100, 63, 70, 500}, 64),
            (Shapes{{0, 2, 0, 64, 163, false}, {2, 2, 64, 564, 570, true}}));
  EXPECT_EQ(runs({80, 1, 80}, {80, 9, 90}, 64),
            (Shapes{{0, 1, 0, 80, 80, true}, {1, 1, 80, 1, 9, false}, {2, 1, 81, 80, 90, true}}));
  EXPECT_EQ(runs({1, 1}, {5, 9}, 0), (Shapes{{0, 2, 0, 2, 14, true}}));
  // Expanded keys and values are bounded, unless one sequence alone has more.
  const auto most = static_cast<std::int32_t>(ops::kExpandedKeys);
  EXPECT_EQ(runs({64, 64, 64, 64}, {most - 64, 64, 64, 3 * most}, 64),
            (Shapes{{0, 2, 0, 128, most, true}, {2, 1, 128, 64, 64, true}, {3, 1, 192, 64, 3 * most, true}}));
  EXPECT_EQ(runs({}, {}, 64), Shapes{});
}

// Three ranks as threads: sums in the order of the ranks, so that all of them have the same bits.
TEST(Collectives, SumsAndPartsOfAllRanks) {
  constexpr int kRanks = 3;
  constexpr i64 kRows = 700, kWidth = 601;  // several pieces of an exchange
  for (const DType type : {DType::f32, DType::bf16}) {
    std::vector<HostTensor> x, h, y;
    Random random(5);
    for (int r = 0; r < kRanks; ++r) {
      x.emplace_back(Shape{kRows, kWidth}, type);
      h.emplace_back(Shape{kRows, kWidth}, DType::f32);
      y.emplace_back(Shape{kRanks, kRows, kWidth}, type);
      x.back().normal(random), h.back().fill([](i64 i) { return static_cast<double>(i % 7); });
    }
    std::vector<double> sum(at(kRows * kWidth));
    for (i64 i = 0; i < kRows * kWidth; ++i) {
      float all = 0;
      for (const HostTensor& part : x) all += static_cast<float>(get(*part, i));
      sum[at(i)] = static_cast<double>(all);
    }
    const std::vector<double> last = values(*x[2]);
    const auto comms = make_thread_communicators(kRanks);
    std::vector<std::thread> threads;
    for (std::size_t r = 0; r < kRanks; ++r)
      threads.emplace_back([&, r] {
        CpuBackend cpu(1);
        cpu.run(op::AllGather{*y[r], *x[r], *comms[r]});
        cpu.run(op::AddReduced{*h[r], *x[r], *comms[r]});
        cpu.run(op::AllReduce{*x[r], *comms[r]});
      });
    for (std::thread& thread : threads) thread.join();
    for (std::size_t r = 0; r < kRanks; ++r) {
      EXPECT_EQ(values((*y[r])[2]), last);
      for (i64 i = 0; i < kRows * kWidth; ++i) {
        const auto added = static_cast<float>(i % 7) + static_cast<float>(sum[at(i)]);
        ASSERT_EQ(get(*h[r], i), static_cast<double>(added));
        const auto rounded =
            type == DType::f32 ? sum[at(i)] : bf16_to_float(float_to_bf16(static_cast<float>(sum[at(i)])));
        ASSERT_EQ(get(*x[r], i), static_cast<double>(rounded));
      }
    }
  }
}

// What an operation lends is the arena's, so that a measured pass counts it; nothing stays lent.
TEST(Scratch, ComesFromTheArena) {
  class Greedy final : public CpuBackend {
   public:
    Greedy() : CpuBackend(1) {}
    i64 scratch_bytes(const op::Add&) const override { return 1000; }
    void lend(const Tensor& scratch) override { lent.push_back(scratch.defined() ? scratch.bytes() : 0); }
    std::vector<i64> lent;
  } greedy;
  SingleCommunicator alone;
  const HostTensor x({2, 4}, DType::f32);
  Arena measure, arena(host_storage(1024));
  TraceBackend nothing(static_cast<const Backend*>(&greedy));
  Context dry{nothing, measure, alone, {}}, ctx{greedy, arena, alone, {}};
  ops::add_(dry, *x, *x);
  EXPECT_GE(measure.peak(), 1000u);
  EXPECT_EQ(measure.used(), 0u);
  ops::add_(ctx, *x, *x);
  EXPECT_EQ(greedy.lent, (std::vector<i64>{1000, 0}));
  EXPECT_EQ(arena.used(), 0u);
}

// An optional operation is logged where the inner backend did it, and only there.
TEST(Trace, LogsWhatRan) {
  CpuBackend cpu(1);
  TraceBackend trace(&cpu);
  HostTensor x({2, 4}, DType::f32), y({2, 4}, DType::f32);
  x.fill([](i64 i) { return static_cast<double>(i); });
  trace.begin_pass();
  trace.run(op::Add{*y, *x});
  EXPECT_FALSE(trace.try_run(op::LinearAdd{*y, *x, {}, GemmMode::bf16}));
  const std::vector<std::string> log = trace.end_pass();
  ASSERT_EQ(log.size(), 1u);
  EXPECT_EQ(log[0].substr(0, 14), "add_ f32[2, 4]");
  EXPECT_EQ(values(*y), values(*x));
}

}  // namespace
}  // namespace fathom::test
