// The view that makes pairs of halves: which rows come where, for every part that is read, and what is refused.
#include "model/paired_rope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "checkpoint/slice.h"

namespace fathom {
namespace {

constexpr i64 kColumns = 3;

ModelArgs small_args() {
  ModelArgs args;
  args.n_heads = 3;
  args.q_lora_rank = kColumns;
  args.kv_lora_rank = 5;
  args.qk_nope_head_dim = 4;
  args.qk_rope_head_dim = 6;
  args.rope_interleave = false;
  return args;
}

// Matrices of float32 whose numbers are their places.
class Numbered final : public Checkpoint {
 public:
  explicit Numbered(std::vector<TensorInfo> tensors) : tensors_(std::move(tensors)), numbers_(100) {
    std::iota(numbers_.begin(), numbers_.end(), 0.0f);
  }
  std::string description() const override { return "numbered"; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override {
    const auto found =
        std::find_if(tensors_.begin(), tensors_.end(), [&](const auto& info) { return info.name == name; });
    return found == tensors_.end() ? nullptr : &*found;
  }
  void read(const TensorInfo& info, const Slice& slice, std::span<std::byte> out) const override {
    copy_slice(info, slice, std::as_bytes(std::span(numbers_).first(static_cast<std::size_t>(info.shape.numel()))),
               out);
  }
  const std::byte* map(const TensorInfo&) const override { return std::as_bytes(std::span(numbers_)).data(); }

 private:
  std::vector<TensorInfo> tensors_;
  std::vector<float> numbers_;
};

// The rows of a head of 10 whose last 6 are rotated, and of the latent of 5 with the key of 6.
const std::vector<i64> kHead = {0, 1, 2, 3, 4, 7, 5, 8, 6, 9}, kLatent = {0, 1, 2, 3, 4, 5, 8, 6, 9, 7, 10};

void expect_rows(const Checkpoint& view, const std::string& name, const std::vector<i64>& head) {
  const TensorInfo& info = *view.find(name);
  const i64 rows = info.shape[0], period = static_cast<i64>(head.size());
  const auto expected = [&](i64 row, i64 column) {
    return static_cast<float>((row / period * period + head[static_cast<std::size_t>(row % period)]) * kColumns +
                              column);
  };
  for (i64 first = 0; first < rows; ++first)
    for (i64 count = 1; first + count <= rows; ++count) {
      std::vector<float> got(static_cast<std::size_t>(count * kColumns));
      view.read(info, {0, first, count}, std::as_writable_bytes(std::span(got)));
      for (i64 i = 0; i < count * kColumns; ++i)
        ASSERT_EQ(got[static_cast<std::size_t>(i)], expected(first + i / kColumns, i % kColumns))
            << name << " " << first << " " << count;
    }
  std::vector<float> all(static_cast<std::size_t>(rows * kColumns)), columns(static_cast<std::size_t>(rows * 2));
  view.read(info, {}, std::as_writable_bytes(std::span(all)));
  view.read(info, {1, 1, 2}, std::as_writable_bytes(std::span(columns)));
  for (i64 row = 0; row < rows; ++row) {
    EXPECT_EQ(all[static_cast<std::size_t>(row * kColumns)], expected(row, 0)) << name << " " << row;
    EXPECT_EQ(columns[static_cast<std::size_t>(2 * row + 1)], expected(row, 2)) << name << " " << row;
  }
}

TEST(PairedRope, HalvesBecomeNeighbours) {
  const Numbered source({{"layers.0.attn.wq.weight", DType::f32, {30, kColumns}},
                         {"layers.1.attn.wq_b.weight", DType::f32, {30, kColumns}},
                         {"model.layers.2.self_attn.q_b_proj.weight", DType::f32, {30, kColumns}},
                         {"layers.0.attn.wkv_a.weight", DType::f32, {11, kColumns}},
                         {"model.layers.2.self_attn.kv_a_proj_with_mqa.weight", DType::f32, {11, kColumns}},
                         {"layers.0.attn.wo.weight", DType::f32, {30, kColumns}}});
  const PairedRopeCheckpoint view(source, small_args());
  for (std::size_t i = 0; i < 5; ++i) {
    const TensorInfo& info = source.tensors()[i];
    expect_rows(view, info.name, i < 3 ? kHead : kLatent);
    EXPECT_EQ(view.map(info), nullptr) << info.name;
  }
  expect_rows(view, "layers.0.attn.wo.weight", {0});
  EXPECT_NE(view.map(source.tensors()[5]), nullptr);
}

// The message of the Error for queries in FP8 whose heads have so many rows, the last `rotated` of them rotated.
std::string refusal(i64 plain, i64 rotated) {
  ModelArgs args;
  args.qk_nope_head_dim = plain;
  args.qk_rope_head_dim = rotated;
  const Numbered source({{"layers.0.attn.wq.weight", DType::e4m3, {4 * (plain + rotated), 128}}});
  try {
    const PairedRopeCheckpoint view(source, args);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(PairedRope, PairsShareTheirScalesOrAreRefused) {
  EXPECT_EQ(refusal(128, 64), "");
  EXPECT_EQ(refusal(192, 64), "");
  EXPECT_EQ(refusal(96, 64).find("numbered: rope_interleave is false, and rows 96 to 159 of layers.0.attn.wq.weight"),
            0u);
}

}  // namespace
}  // namespace fathom
