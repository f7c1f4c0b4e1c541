// What happens between decode steps, on both backends.
#include <limits>

#include "cuda/twin.h"

namespace fathom::test {
namespace {

using Steps = CudaTest;

TEST_F(Steps, RowsThatAreNotFiniteAreMarked) {
  constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
  const double bad[] = {kNan, kInf, -kInf};
  for (const i64 vocab : {1, 3, 257, 4096, 5001, 129280})
    for (const i64 gap : {0, 3}) {
      const i64 places[] = {0, vocab / 2, vocab - 1};
      Twin logits(*gpu_, {10, vocab}, DType::f32, gap), ids(*gpu_, {10}, DType::i32);
      logits.fill([&](i64 i) {
        const i64 row = i / vocab;
        return row > 0 && i % vocab == places[(row - 1) / 3] ? bad[(row - 1) % 3] : 3e38;
      });
      ids.fill([](i64 i) { return static_cast<double>(i); });
      gpu_->run(op::MarkNotFinite{ids.device, logits.device});
      cpu_.run(op::MarkNotFinite{ids.host, logits.host});
      ids.expect_equal();
      EXPECT_EQ(values(ids.host), (std::vector<double>{0, -1, -1, -1, -1, -1, -1, -1, -1, -1})) << vocab;
    }
}

// Seven steps of five sequences, one of them padding; the log has room for six.
TEST_F(Steps, AdvanceIsTheCpus) {
  constexpr i64 kCount = 5, kWidth = 6, kRows = 6, kBlock = 4;
  const auto ints = [&](const Shape& shape, const std::function<double(i64)>& f) {
    auto x = std::make_unique<Twin>(*gpu_, shape, DType::i32);
    x->fill(f);
    return x;
  };
  const auto ids = ints({kCount}, [](i64 i) { return i; }), positions = ints({kCount}, [](i64 i) { return 3 * i + 2; }),
             slots = ints({kCount}, [](i64 i) { return i == 3 ? -1 : 40 * i + 3 * i + 2; }),
             lens = ints({kCount}, [](i64 i) { return 3 * i + 3; }),
             tables = ints({kCount, kWidth}, [](i64 i) { return 100 - i; }),
             log = ints({1 + kRows, kCount}, [](i64) { return 0; });
  Twin rows(*gpu_, {kCount, sizeof(RowSampling)}, DType::u8), drawn(*gpu_, {kCount}, DType::i32);
  for (i64 i = 0; i < kCount; ++i) static_cast<RowSampling*>(rows.host.data())[i] = {{}, i * 11};
  rows.push();
  const auto batch = [&](auto side) {
    const Sequences all{.positions = side(*positions),
                        .slots = side(*slots),
                        .seq_starts = {},
                        .context_lens = side(*lens),
                        .context_starts = {},
                        .block_tables = side(*tables)};
    return Batch{.ids = side(*ids), .logit_rows = {}, .runs = {all}};
  };
  for (i64 pass = 0; pass < 7; ++pass) {
    drawn.fill([&](i64 i) { return i == 1 && pass == 2 ? -1 : 1000 * pass + i; });
    gpu_->try_run(op::Advance{
        batch([](const Twin& x) { return x.device; }), drawn.device, {rows.device, {}}, log->device, kBlock});
    cpu_.try_run(
        op::Advance{batch([](const Twin& x) { return x.host; }), drawn.host, {rows.host, {}}, log->host, kBlock});
    for (const Twin* x : {ids.get(), positions.get(), slots.get(), lens.get(), log.get()}) x->expect_equal();
    rows.expect_equal();
  }
  EXPECT_EQ(values(log->host.narrow(0, 0, 1))[0], kRows);
}

}  // namespace
}  // namespace fathom::test
