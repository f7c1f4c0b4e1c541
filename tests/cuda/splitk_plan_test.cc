// How products of a few dozen rows are divided: what any choice must keep, without a GPU.
#include "kernels/cuda/sm90/splitk_plan.h"

#include <gtest/gtest.h>

namespace fathom::cuda {
namespace {

constexpr int kProcessors = 132;

ProductShape shape(i64 rows, i64 out, i64 in, int w_bytes, int x_bytes) {
  ProductShape s;
  s.out[0] = out, s.rows = rows, s.in = in;
  if (w_bytes == 1) s.w = Type::e4m3;
  s.quantise = x_bytes == 1;
  return s;
}

TEST(SplitKPlan, EveryChoiceCanRun) {
  for (const auto& [w_bytes, x_bytes] : {std::pair{2, 2}, {1, 2}, {1, 1}})
    for (const i64 rows : {1, 17, 32, 33, 64, 65, 100, 128, 129, 200, 256})
      for (const i64 out : {1, 72, 200, 576, 2112, 7168, 18432, 102400})
        for (const i64 in : {16, 128, 640, 2048, 7168, 18432}) {
          SCOPED_TRACE(testing::Message() << rows << " rows " << out << " x " << in << " bytes " << w_bytes << x_bytes);
          const SplitK c = divide_splitk(shape(rows, out, in, w_bytes, x_bytes), kProcessors);
          EXPECT_EQ(c.outputs % 16, 0);  // a warp's outputs have one scale
          EXPECT_LE(c.outputs, 128);
          EXPECT_GE(c.width, rows);
          EXPECT_LE(c.splits, 8);                           // blocks of a cluster
          EXPECT_LE(c.splits, std::max<i64>(in / 128, 1));  // each has a step
          EXPECT_TRUE(c.width <= 128 || c.at_once == 1);
          // Two stages and, later, the sums of a part have room.
          const i64 stage = c.outputs * 128 + c.width * 128 * (x_bytes > w_bytes ? 2 : 1) + c.width * 4,
                    room = 227 * 1024 / c.at_once - 4 * 1024;
          EXPECT_LE(2 * stage, room);
          EXPECT_LE(rows * (c.outputs + 4) * 4, room);
        }
}

TEST(SplitKPlan, PublishedShapesFillTheProcessors) {
  for (const auto& [out, in] : {std::pair<i64, i64>{3072, 2048},
                                {2048, 2048},
                                {2112, 7168},
                                {7168, 2048},
                                {5120, 16384},
                                {7168, 16384},
                                {24576, 1536},
                                {18432, 7168}}) {
    const ProductShape s = shape(64, out, in, 2, 2);
    const SplitK c = divide_splitk(s, kProcessors);
    EXPECT_GE(splitk_tiles(s, c.outputs) * c.splits, kProcessors * 2 / 3) << out << " x " << in;
  }
}

TEST(SplitKPlan, TilesOfSeveralMatricesAddUp) {
  ProductShape s = shape(32, 200, 512, 2, 2);
  s.out[1] = 1, s.out[2] = 129, s.parts = 3;
  EXPECT_EQ(splitk_tiles(s, 128), 2 + 1 + 2);
}

}  // namespace
}  // namespace fathom::cuda
