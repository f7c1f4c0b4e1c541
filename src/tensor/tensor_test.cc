#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tensor/arena.h"

namespace fathom {
namespace {

TEST(Shape, CountsAndLimits) {
  EXPECT_EQ(Shape({3, 4, 5}).numel(), 60);
  EXPECT_EQ(Shape({3, 0}).numel(), 0);
  EXPECT_EQ(Shape().numel(), 1);
  EXPECT_EQ(to_string(Shape({3, 4})), "[3, 4]");
  EXPECT_EQ(Shape({2, 3}), Shape({2, 3}));
  EXPECT_NE(Shape({2, 3}), Shape({2, 3, 1}));
  EXPECT_THROW(Shape({1, 1, 1, 1, 1}), Error);
}

class TensorTest : public testing::Test {
 protected:
  TensorTest() { std::iota(numbers_.begin(), numbers_.end(), 0.0f); }
  float first(const Tensor& x) { return *x.as<float>(); }

  std::vector<float> numbers_ = std::vector<float>(60);
  Tensor x_{numbers_.data(), DType::f32, {3, 4, 5}};
};

TEST_F(TensorTest, StridesAndViews) {
  EXPECT_TRUE(x_.contiguous());
  EXPECT_EQ(x_.stride(0), 20);
  EXPECT_EQ(x_.stride(2), 1);
  EXPECT_EQ(x_.bytes(), 240);
  EXPECT_EQ(x_.view({12, 5}).dim(0), 12);
  EXPECT_THROW(x_.view({12, 6}), Error);
}

TEST_F(TensorTest, NarrowSharesMemory) {
  const Tensor part = x_.narrow(1, 1, 2);
  EXPECT_EQ(part.shape(), Shape({3, 2, 5}));
  EXPECT_EQ(first(part), 5);
  EXPECT_FALSE(part.contiguous());
  EXPECT_THROW(part.view({30}), Error);
  EXPECT_TRUE(x_.narrow(0, 1, 2).contiguous());
  EXPECT_EQ(x_.narrow(2, 5, 0).numel(), 0);
  EXPECT_THROW(x_.narrow(1, 3, 2), Error);
  EXPECT_THROW(x_.narrow(1, -1, 2), Error);
  EXPECT_THROW(x_.narrow(3, 0, 1), Error);
  EXPECT_THROW(x_.narrow(0, 0, -1), Error);
}

TEST_F(TensorTest, IndexDropsTheFirstDimension) {
  const Tensor one = x_.narrow(1, 2, 2)[1];
  EXPECT_EQ(one.shape(), Shape({2, 5}));
  EXPECT_EQ(one.stride(0), 5);
  EXPECT_EQ(first(one), 30);
  EXPECT_EQ(first(x_[2][3][4]), 59);
  EXPECT_EQ(x_[2][3][4].rank(), 0);
  EXPECT_THROW(x_[3], Error);
}

TEST_F(TensorTest, SplitCutsTheLastDimension) {
  const auto [a, b] = split(x_, 2, 3);
  EXPECT_EQ(a.shape(), Shape({3, 4, 2}));
  EXPECT_EQ(b.shape(), Shape({3, 4, 3}));
  EXPECT_EQ(first(b), 2);
  EXPECT_EQ(first(b[1]), 22);
  EXPECT_THROW(split(x_, 2, 2), Error);
}

TEST_F(TensorTest, DimensionsOfOneDoNotBreakContiguity) {
  EXPECT_TRUE(x_.narrow(0, 1, 1).contiguous());
  EXPECT_TRUE(x_.narrow(0, 0, 1).narrow(1, 2, 1).contiguous());
}

TEST_F(TensorTest, PointersMustFitTheType) {
  EXPECT_THROW(x_.as<std::uint16_t>(), Error);
  EXPECT_THROW(x_.as<std::int32_t>(), Error);
  const Tensor half(numbers_.data(), DType::bf16, {4});
  EXPECT_NO_THROW(half.as<std::uint16_t>());
  EXPECT_THROW(half.as<float>(), Error);
}

TEST(DTypeTest, NamesGoThereAndBack) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16, DType::e4m3, DType::e8m0, DType::i32, DType::i64,
                           DType::u8, DType::boolean})
    EXPECT_EQ(dtype_from_safetensors(safetensors_name(type)), type);
  EXPECT_EQ(dtype_from_safetensors("F8_E5M2"), std::nullopt);
  EXPECT_EQ(dtype_from_safetensors(""), std::nullopt);
  EXPECT_EQ(size_of(DType::bf16), 2);
  EXPECT_EQ(size_of(DType::i64), 8);
}

TEST(ArenaTest, ScopesGiveTheSameAddressesAgain) {
  Arena arena(host_storage(4096));
  const Tensor kept = arena.empty({10}, DType::f32);
  void* address = nullptr;
  for (int pass = 0; pass < 3; ++pass) {
    const ArenaScope scope(arena);
    const Tensor x = arena.empty({7, 3}, DType::bf16);
    EXPECT_TRUE(address == nullptr || address == x.data());
    address = x.data();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.data()) % Arena::kAlignment, 0u);
    EXPECT_GE(static_cast<std::byte*>(x.data()), static_cast<std::byte*>(kept.data()) + 40);
  }
  EXPECT_EQ(arena.used(), Arena::kAlignment);
  EXPECT_EQ(arena.peak(), 2 * Arena::kAlignment);
}

TEST(ArenaTest, FullArenaSaysSo) {
  Arena arena(host_storage(1024));
  EXPECT_THROW(arena.empty({1025}, DType::u8), Error);
}

TEST(ArenaTest, MeasuringTouchesNothing) {
  Arena arena;
  EXPECT_TRUE(arena.empty({i64{1} << 40}, DType::f32).defined());
  EXPECT_EQ(arena.peak(), std::size_t{1} << 42);
}

TEST(StorageTest, MovesAndFreesOnce) {
  int freed = 0;
  int block = 0;
  {
    Storage a(&block, 4, {}, [&](void*) { ++freed; });
    Storage b(std::move(a));
    Storage c;
    c = std::move(b);
    EXPECT_EQ(c.data(), &block);
    EXPECT_EQ(freed, 0);
  }
  EXPECT_EQ(freed, 1);
  const Storage memory = host_storage(1 << 20);
  const auto* bytes = static_cast<const unsigned char*>(memory.data());
  EXPECT_EQ(std::accumulate(bytes, bytes + memory.bytes(), 0), 0);
  EXPECT_EQ(host_storage(0).data(), nullptr);
}

}  // namespace
}  // namespace fathom
