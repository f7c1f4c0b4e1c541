#include "engine/decode_graphs.h"

#include <gtest/gtest.h>

#include "backends/cpu/cpu_backend.h"

namespace fathom {
namespace {

// Counts what is recorded and replayed; a recording runs nothing.
class Recorder final : public CpuBackend {
 public:
  Recorder() : CpuBackend(1) {}
  std::unique_ptr<Graph> capture(const std::function<void()>& pass) override {
    class Counted final : public Graph {
     public:
      explicit Counted(int& replays) : replays_(replays) {}
      void replay() override { ++replays_; }
      i64 operations() const override { return 42; }

     private:
      int& replays_;
    };
    ++captures;
    pass();
    return std::make_unique<Counted>(replays);
  }
  int captures = 0, replays = 0;
};

TEST(DecodeGraphs, CallsRecordsAndReplaysEachShape) {
  Recorder backend;
  DecodeGraphs graphs(backend);
  int calls = 0;
  const auto run = [&](i64 batch, i64 context) { graphs.run(batch, context, [&] { ++calls; }); };
  run(1, 1024);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(backend.captures, 0);
  run(1, 1024);  // recorded, and run by its replay
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(backend.captures, 1);
  EXPECT_EQ(backend.replays, 1);
  run(1, 1024);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(backend.replays, 2);
  EXPECT_EQ(graphs.operations(1, 1024), 42);
  for (const auto& [batch, context] : {std::pair<i64, i64>{2, 1024}, {1, 2048}}) {
    EXPECT_EQ(graphs.operations(batch, context), 0);
    run(batch, context), run(batch, context);
  }
  EXPECT_EQ(backend.captures, 3);
  EXPECT_EQ(graphs.recordings(), 3);
}

TEST(DecodeGraphs, RecordingsAreBounded) {
  Recorder backend;
  DecodeGraphs graphs(backend);
  for (i64 batch = 1; batch < 1000; ++batch)
    for (int i = 0; i < 3; ++i) {
      graphs.run(batch, 1024, [] {});
      ASSERT_LE(graphs.recordings(), 256);
    }
  EXPECT_EQ(backend.captures, 999);
  EXPECT_EQ(backend.replays, 2 * 999);
}

// One shape in use stays, however many others come and go.
TEST(DecodeGraphs, TheLongestUnusedIsForgotten) {
  Recorder backend;
  DecodeGraphs graphs(backend);
  for (i64 batch = 1; batch < 1000; ++batch)
    for (int i = 0; i < 2; ++i) graphs.run(batch, 1024, [] {}), graphs.run(1, 2048, [] {});
  EXPECT_EQ(backend.captures, 999 + 1);
  EXPECT_EQ(graphs.recordings(), 256);
  EXPECT_EQ(graphs.operations(999 - 254, 1024), 42);
  EXPECT_EQ(graphs.operations(999 - 255, 1024), 0);
}

TEST(DecodeGraphs, ContextsAreRoundedToPowersOfTwo) {
  EXPECT_EQ(DecodeGraphs::rounded_context(1), 1024);
  EXPECT_EQ(DecodeGraphs::rounded_context(1024), 1024);
  EXPECT_EQ(DecodeGraphs::rounded_context(1025), 2048);
  EXPECT_EQ(DecodeGraphs::rounded_context(131072), 131072);
}

TEST(DecodeGraphs, CallsThePassEachTimeWhereNothingCanBeRecorded) {
  CpuBackend cpu(1);
  DecodeGraphs graphs(cpu);
  int calls = 0;
  for (int i = 0; i < 5; ++i) graphs.run(1 + i % 2, 1024, [&] { ++calls; });
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(graphs.operations(1, 1024), 0);
}

}  // namespace
}  // namespace fathom
