#include "checkpoint/stored.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <limits>

#include "checkpoint/safetensors.h"
#include "quant/fp8_block.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNorm = "model.norm.weight";
constexpr const char* kMatrix = "model.layers.0.self_attn.o_proj.weight";

// A directory with one FP8 matrix [300, 200], its scales [3, 2] and a bf16 vector.
class StoredTest : public testing::Test {
 protected:
  static constexpr i64 kRows = 300, kCols = 200;

  void SetUp() override {
    fs::create_directories(folder_);
    for (std::size_t i = 0; i < codes_.size(); ++i) codes_[i] = static_cast<e4m3_bits>(i % 251);
    for (bf16_bits& x : norm_) x = float_to_bf16(1.5f);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // `scale`: its name and type; no scale when the name is empty.
  void write(const std::string& scale, DType type, Shape shape = {3, 2}) {
    std::vector<TensorInfo> tensors{{kMatrix, DType::e4m3, {kRows, kCols}}, {kNorm, DType::bf16, {8}}};
    if (!scale.empty()) tensors.push_back({scale, type, shape});
    SafetensorsWriter writer(folder_ / "model.safetensors", tensors);
    for (const TensorInfo& info : writer.tensors()) {
      if (info.name == kMatrix)
        writer.write(std::as_bytes(std::span(codes_)));
      else if (info.name == kNorm)
        writer.write(std::as_bytes(std::span(norm_)));
      else
        writer.write(scale_bytes(type, static_cast<std::size_t>(info.bytes())));
    }
    writer.finish();
  }

  std::vector<std::byte> scale_bytes(DType type, std::size_t size) const {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size / static_cast<std::size_t>(size_of(type)) && i < scales_.size(); ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(scales_[i]);
      if (type == DType::f32) std::memcpy(bytes.data() + 4 * i, &bits, 4);
      if (type == DType::bf16) std::memcpy(bytes.data() + 2 * i, reinterpret_cast<const char*>(&bits) + 2, 2);
      if (type == DType::e8m0) bytes[i] = static_cast<std::byte>(bits >> 23);
    }
    return bytes;
  }

  std::vector<bf16_bits> cast(const Slice& slice, i64 rows) {
    const auto files = open_hf_directory(folder_);
    const StoredCheckpoint stored(*files);
    const CastCheckpoint view(stored, false);
    EXPECT_EQ(view.tensors().size(), 2u);
    std::vector<bf16_bits> out(static_cast<std::size_t>(rows * kCols));
    view.read(*view.find(kMatrix), slice, std::as_writable_bytes(std::span(out)));
    return out;
  }

  bf16_bits wanted(i64 row, i64 column) const {
    const float scale = scales_[static_cast<std::size_t>(row / 128 * 2 + column / 128)];
    return float_to_bf16(e4m3_to_float(codes_[static_cast<std::size_t>(row * kCols + column)]) * scale);
  }

  std::string refusal(bool allow = false) {
    try {
      const auto files = open_hf_directory(folder_);
      const StoredCheckpoint stored(*files);
      const CastCheckpoint view(stored, allow);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  fs::path folder_ = fs::temp_directory_path() / fmt::format("fathom-stored-test-{}", ::getpid());
  std::vector<e4m3_bits> codes_ = std::vector<e4m3_bits>(kRows * kCols);
  std::vector<bf16_bits> norm_ = std::vector<bf16_bits>(8);
  std::vector<float> scales_ = {0.5f, 2.0f, 0x1p-20f, 8.0f, 1.0f, 0.25f};  // exact in each type
};

TEST_F(StoredTest, CastsWithScalesOfEachTypeAndName) {
  for (const char* end : {"_scale_inv", "_scale"})
    for (const DType type : {DType::f32, DType::bf16, DType::e8m0}) {
      write(std::string(kMatrix) + end, type);
      const auto y = cast({}, kRows);
      for (i64 i = 0; i < kRows * kCols; ++i)
        ASSERT_EQ(y[static_cast<std::size_t>(i)], wanted(i / kCols, i % kCols)) << end << " " << name_of(type) << i;
    }
}

TEST_F(StoredTest, CastsRowsFromABlockOn) {
  write(std::string(kMatrix) + "_scale_inv", DType::f32);
  const auto y = cast({0, 128, 172}, 172);
  for (i64 i = 0; i < 172 * kCols; ++i)
    ASSERT_EQ(y[static_cast<std::size_t>(i)], wanted(128 + i / kCols, i % kCols)) << i;
  EXPECT_THROW(cast({0, 64, 128}, 128), Error);
  EXPECT_THROW(cast({0, 256, 128}, 128), Error);
}

// Fused experts: each matrix has blocks of its own, also where its rows are no multiple of 128.
TEST_F(StoredTest, CastsStacksMatrixByMatrix) {
  const std::string name = "model.layers.0.mlp.experts.down_proj";
  SafetensorsWriter writer(folder_ / "model.safetensors",
                           {{name, DType::e4m3, {2, kRows, kCols}}, {name + "_scale_inv", DType::f32, {2, 3, 2}}});
  for (const TensorInfo& info : writer.tensors())
    for (int i = 0; i < 2; ++i)
      writer.write(info.name == name ? std::as_bytes(std::span(codes_)) : std::as_bytes(std::span(scales_)));
  writer.finish();
  const auto files = open_hf_directory(folder_, false);
  const StoredCheckpoint stored(*files);
  const CastCheckpoint view(stored, false);
  const TensorInfo& info = *view.find(name);
  EXPECT_EQ(info.shape, (Shape{2, kRows, kCols}));
  std::vector<bf16_bits> whole(static_cast<std::size_t>(2 * kRows * kCols)), second(whole.size() / 2);
  view.read(info, {}, std::as_writable_bytes(std::span(whole)));
  view.read(info, {0, 1, 1}, std::as_writable_bytes(std::span(second)));
  for (i64 i = 0; i < 2 * kRows * kCols; ++i)
    ASSERT_EQ(whole[static_cast<std::size_t>(i)], wanted(i / kCols % kRows, i % kCols)) << i;
  EXPECT_TRUE(std::equal(second.begin(), second.end(), whole.begin() + kRows * kCols));
}

TEST_F(StoredTest, RefusesWhatCannotBeCast) {
  write("", DType::f32);
  EXPECT_NE(refusal().find("has no"), std::string::npos);
  EXPECT_EQ(refusal(true), "");
  write(std::string(kMatrix) + "_scale_inv", DType::f32, {2, 3});
  EXPECT_NE(refusal().find("have shape"), std::string::npos);
  write(std::string(kMatrix) + "_scale_inv", DType::i32);
  EXPECT_NE(refusal().find("are supported"), std::string::npos);
}

TEST_F(StoredTest, StoredBytesComeAsTheyAreAndAShrinkingFileIsAnError) {
  write(std::string(kMatrix) + "_scale_inv", DType::f32);
  const auto files = open_hf_directory(folder_);
  const StoredCheckpoint stored(*files);
  const TensorInfo& matrix = *stored.find(kMatrix);
  std::vector<e4m3_bits> part(kRows * 70);
  stored.read(matrix, {1, 130, 70}, std::as_writable_bytes(std::span(part)));
  for (i64 i = 0; i < kRows * 70; ++i)
    ASSERT_EQ(part[static_cast<std::size_t>(i)], codes_[static_cast<std::size_t>(i / 70 * kCols + 130 + i % 70)]);
  EXPECT_THROW(stored.read(matrix, {1, 131, 70}, std::as_writable_bytes(std::span(part))), Error);
  fs::resize_file(folder_ / "model.safetensors", 1000);
  std::vector<e4m3_bits> whole(codes_.size());
  EXPECT_THROW(stored.read(matrix, {}, std::as_writable_bytes(std::span(whole))), Error);
}

// Codes and scales of a matrix read in pieces are those of the matrix read at once and quantised.
TEST_F(StoredTest, QuantisesPieceByPiece) {
  std::vector<float> w(static_cast<std::size_t>(kRows * kCols));
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i * 7919 % 1000) * 0.013f - 6;
  SafetensorsWriter writer(folder_ / "model.safetensors", {{kMatrix, DType::f32, {kRows, kCols}}});
  writer.write(std::as_bytes(std::span(w)));
  writer.finish();
  const auto files = open_hf_directory(folder_);
  const StoredCheckpoint stored(*files);
  for (const bool power_of_two : {false, true}) {
    const QuantizedCheckpoint view(stored, {kMatrix}, power_of_two);
    std::vector<e4m3_bits> want(w.size()), codes(w.size());
    std::vector<float> want_scales(6), scales(6);
    quantize_weight(w.data(), kRows, kCols, power_of_two, want.data(), want_scales.data());
    const TensorInfo& matrix = *view.find(kMatrix);
    const TensorInfo& scale = *view.find(std::string(kMatrix) + "_scale_inv");
    EXPECT_EQ(view.matrix_of_scale(scale)->name, kMatrix);
    EXPECT_EQ(view.matrix_of_scale(matrix), nullptr);
    const auto bytes = std::as_writable_bytes(std::span(codes));
    view.read(matrix, {0, 0, 256}, bytes.first(256 * kCols));
    view.read(matrix, {0, 256, 44}, bytes.subspan(256 * kCols));
    view.read(scale, {0, 0, 1}, std::as_writable_bytes(std::span(scales).first(2)));
    view.read(scale, {0, 1, 2}, std::as_writable_bytes(std::span(scales).subspan(2)));
    EXPECT_EQ(codes, want);
    EXPECT_EQ(scales, want_scales);
  }
}

}  // namespace
}  // namespace fathom
