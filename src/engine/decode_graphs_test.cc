#include "engine/decode_graphs.h"

#include <gtest/gtest.h>

#include "backends/cpu/cpu_backend.h"

namespace fathom {
namespace {

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
