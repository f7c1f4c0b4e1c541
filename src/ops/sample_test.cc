// Drawing tokens as the model's users call it: a row that is not finite is marked, and shapes are checked.
#include <gtest/gtest.h>

#include <limits>

#include "backends/cpu/cpu_backend.h"
#include "ops/context.h"
#include "ops/sampling.h"

namespace fathom {
namespace {

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

TEST(Sample, RowsThatAreNotFiniteAreMarked) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  Drawing drawing;
  const Tensor ids = drawing.ids({1, 3, 2, 1, kNan, 2, 5, 3, 2, kInf, 3, 2, -kInf, 3, 2}, 3,
                                 std::vector(5, RowSampling{{.top_k = 1}}));
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
