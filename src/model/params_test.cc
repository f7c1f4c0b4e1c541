// What a module gets from Params: its part of a matrix in the format that the checkpoint stores, stacks, vectors,
// derived numbers, and refusals that name the tensor.
#include "model/params.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "backends/cpu/cpu_backend.h"
#include "checkpoint/slice.h"

namespace fathom {
namespace {

std::size_t at(i64 i) { return static_cast<std::size_t>(i); }

// Tensors in memory.
class MemoryCheckpoint final : public Checkpoint {
 public:
  std::string description() const override { return "memory"; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override {
    for (const TensorInfo& info : tensors_)
      if (info.name == name) return &info;
    return nullptr;
  }
  void read(const TensorInfo& info, const Slice& slice, std::span<std::byte> out) const override {
    copy_slice(info, slice, bytes_.at(info.name), out);
  }
  const std::byte* map(const TensorInfo& info) const override { return bytes_.at(info.name).data(); }

  template <typename T>
  void add(const std::string& name, DType dtype, const Shape& shape, T (*value)(i64 i)) {
    std::vector<T> values(at(shape.numel()));
    for (i64 i = 0; i < shape.numel(); ++i) values[at(i)] = value(i);
    tensors_.push_back({name, dtype, shape});
    const auto bytes = std::as_bytes(std::span(values));
    bytes_[name].assign(bytes.begin(), bytes.end());
  }
  void add_bf16(const std::string& name, const Shape& shape) {
    add<bf16_bits>(name, DType::bf16, shape, [](i64 i) { return float_to_bf16(static_cast<float>(i % 251)); });
  }
  // A matrix of codes, all of them different in a row of a block, with scales 1, 2, 3, ...
  void add_fp8(const std::string& name, i64 out, i64 in) {
    add<e4m3_bits>(name + ".weight", DType::e4m3, {out, in}, [](i64 i) { return static_cast<e4m3_bits>(i * 7 % 120); });
    add<float>(name + ".scale", DType::f32, {(out + 127) / 128, (in + 127) / 128},
               [](i64 i) { return static_cast<float>(i + 1); });
  }

 private:
  std::vector<TensorInfo> tensors_;
  std::map<std::string, std::vector<std::byte>> bytes_;
};

class ParamsTest : public testing::Test {
 protected:
  // Parameters of one of several ranks, copied unless mapped.
  Params params(int rank = 0, int ranks = 1, bool map = false) {
    store_ = std::make_unique<WeightStore>(checkpoint_, backend_, rank, ranks, map);
    return Params(*store_, args_, options_);
  }
  template <typename Call>
  std::string refusal(Call&& call) {
    try {
      call();
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  MemoryCheckpoint checkpoint_;
  CpuBackend backend_{1};
  ModelArgs args_;
  ComputeOptions options_;
  std::unique_ptr<WeightStore> store_;
};

std::vector<float> values_of(const Weight& w) {
  std::vector<float> values(at(w.out() * w.in()));
  w.dequantize(values.data());
  return values;
}

// Rows [row, row + rows) and columns [column, column + columns) of a matrix of `width` columns.
std::vector<float> part_of(const std::vector<float>& whole, i64 width, i64 row, i64 rows, i64 column, i64 columns) {
  std::vector<float> part;
  for (i64 r = row; r < row + rows; ++r)
    for (i64 c = column; c < column + columns; ++c) part.push_back(whole[at(r * width + c)]);
  return part;
}

TEST_F(ParamsTest, PartsOfRanksAreThePartsOfTheWhole) {
  checkpoint_.add_fp8("fp8", 512, 768);
  checkpoint_.add_bf16("bf16.weight", {12, 20});
  const Params whole = params();
  const Weight fp8 = whole.sub("fp8").matrix(512, 768, Split::none, kFp8Block128);
  const Weight bf16 = whole.sub("bf16").matrix(12, 20, Split::none, kBf16);
  whole.load();
  const std::vector<float> all = values_of(fp8), few = values_of(bf16);
  EXPECT_EQ(all[at(300 * 768 + 500)], e4m3_to_float(static_cast<e4m3_bits>((300 * 768 + 500) * 7 % 120)) * 16);
  EXPECT_EQ(few[at(7 * 20 + 3)], 143.0f);
  const auto first = std::move(store_);
  for (const bool map : {false, true})
    for (int rank = 0; rank < 2; ++rank) {
      const Params p = params(rank, 2, map);
      const Weight rows = p.sub("fp8").matrix(512, 768, Split::out, kFp8Block128);
      const Weight columns = p.sub("fp8").matrix(512, 768, Split::in, kFp8Block128);
      const Weight plain = p.sub("bf16").matrix(12, 20, Split::in, kBf16);
      p.load();
      EXPECT_EQ(values_of(rows), part_of(all, 768, rank * 256, 256, 0, 768));
      EXPECT_EQ(rows.scale.shape(), (Shape{2, 6}));
      EXPECT_EQ(values_of(columns), part_of(all, 768, 0, 512, rank * 384, 384));
      EXPECT_EQ(columns.scale.shape(), (Shape{4, 3}));
      EXPECT_EQ(values_of(plain), part_of(few, 20, 0, 12, rank * 10, 10));
      EXPECT_EQ(p.sub("fp8").host_matrix(512, 768, Split::in), values_of(columns));
    }
}

TEST_F(ParamsTest, EachMatrixHasTheFormatInWhichItIsStored) {
  args_.dtype = "fp8";
  args_.scale_fmt = "ue8m0";
  checkpoint_.add_fp8("a", 128, 256);
  checkpoint_.add_bf16("b.weight", {128, 256});
  checkpoint_.add<float>("c.weight", DType::f32, {128, 256}, [](i64 i) { return static_cast<float>(i); });
  const Params p = params();
  const auto format = [&](const char* name, const Format& configured) {
    return p.sub(name).matrix(128, 256, Split::none, configured).format;
  };
  EXPECT_EQ(format("a", kFp8Block128Ue8m0), &kFp8Block128Ue8m0);
  EXPECT_EQ(format("a", kFp8Block128), &kFp8Block128);
  EXPECT_EQ(format("a", kBf16), &kFp8Block128);
  EXPECT_EQ(format("b", kFp8Block128), &kBf16);
  EXPECT_EQ(format("c", kFp8Block128), &kF32);
  EXPECT_EQ(p.sub("b").plain_matrix(128, 256, Split::none).format, &kBf16);
  EXPECT_EQ(p.sub("c").plain_matrix(128, 256, Split::none).format, &kF32);
  EXPECT_EQ(p.sub("b").host_matrix(128, 256, Split::none)[252], 1.0f);
  // What is recorded for the same modules takes the same bytes.
  const i64 taken = store_->bytes();
  WeightStore recorder = store_->recorder();
  const Params dry(recorder, args_, options_);
  EXPECT_TRUE(dry.dry());
  for (const char* name : {"a", "a", "a", "b", "c"}) dry.sub(name).matrix(128, 256, Split::none, kFp8Block128);
  for (const char* name : {"b", "c"}) dry.sub(name).plain_matrix(128, 256, Split::none);
  EXPECT_EQ(recorder.bytes(), taken);
  EXPECT_EQ(taken, 3 * (128 * 256 + 8) + 2 * (128 * 256 * 2) + 2 * (128 * 256 * 4));
}

TEST_F(ParamsTest, StacksHoldTheExpertsInOrder) {
  args_.dtype = "fp8";
  for (i64 i = 0; i < 4; ++i) checkpoint_.add_fp8(fmt::format("layers.1.ffn.experts.{}.w1", i), 256, 128);
  for (i64 i = 0; i < 4; ++i)
    checkpoint_.add_bf16(fmt::format("layers.1.ffn.experts.{}.w2.weight", i), {2 + (i == 3), 3});
  for (const bool map : {false, true}) {
    const Params p = params(1, 2, map).sub("layers.1.ffn.experts");
    const Weight w1 = p.stack("w1", 2, 2, 256, 128);
    p.load();
    EXPECT_EQ(w1.shape(), (Shape{2, 256, 128}));
    EXPECT_EQ(w1.data.shape(), (Shape{2, 256, 128}));
    EXPECT_EQ(w1.scale.shape(), (Shape{2, 2, 1}));
    EXPECT_EQ(w1.apart != nullptr, map);
    for (i64 i = 0; i < 2; ++i) {
      EXPECT_EQ(values_of(w1[i]), p.sub(2 + i).sub("w1").host_matrix(256, 128, Split::none));
      EXPECT_EQ(w1[i].format, &kFp8Block128);
    }
    EXPECT_EQ(store_->entries()[0].full.name, "layers.1.ffn.experts.2.w1.weight");
    EXPECT_EQ(store_->entries()[0].group, "routed");
    EXPECT_EQ(store_->entries()[0].parameters, 256 * 128);
    EXPECT_EQ(store_->entries()[1].full.name, "layers.1.ffn.experts.2.w1.scale");
    EXPECT_EQ(store_->entries()[1].parameters, 0);
  }
  EXPECT_NE(refusal([&] {
              params().sub("layers.1.ffn.experts").stack("w2", 2, 2, 2, 3);
            }).find("layers.1.ffn.experts.3.w2.weight"),
            std::string::npos);
  checkpoint_.add_bf16("layers.1.ffn.experts.4.w1.weight", {256, 128});
  const std::string mixed = refusal([&] { params().sub("layers.1.ffn.experts").stack("w1", 3, 2, 256, 128); });
  EXPECT_NE(mixed.find("experts.4.w1.weight is stored as bf16, that of other experts as fp8_block128"),
            std::string::npos)
      << mixed;
}

TEST_F(ParamsTest, VectorsAndDerivedNumbers) {
  checkpoint_.add_bf16("norm.weight", {4});
  const Params p = params();
  const Tensor norm = p.sub("norm").vector("weight", 4);
  EXPECT_EQ(std::vector<float>(norm.as<float>(), norm.as<float>() + 4), (std::vector<float>{0, 1, 2, 3}));
  std::vector<i64> asked;
  const auto fill = [&](i64 i, std::span<float> values) {
    asked.push_back(i);
    for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(i) + 0.001f * static_cast<float>(k);
  };
  const Tensor wide = p.derived({3, 2}, DType::f32, fill), narrow = p.derived({3, 2}, DType::bf16, fill);
  EXPECT_EQ(asked, (std::vector<i64>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(wide.as<float>()[5], 2.001f);
  EXPECT_EQ(narrow.as<bf16_bits>()[5], float_to_bf16(2.001f));
  WeightStore recorder = store_->recorder();
  Params(recorder, args_, options_).derived({3, 2}, DType::f32, fill);
  EXPECT_EQ(asked.size(), 6u);  // not called when dry
}

TEST_F(ParamsTest, RefusalsNameTheTensor) {
  checkpoint_.add_fp8("a", 384, 256);
  checkpoint_.add_bf16("b.weight", {6, 8});
  checkpoint_.add<e4m3_bits>("bare.weight", DType::e4m3, {4, 4}, [](i64) { return e4m3_bits{0}; });
  const auto says = [&](std::initializer_list<const char*> words, auto&& call) {
    const std::string text = refusal(call);
    for (const char* word : words) EXPECT_NE(text.find(word), std::string::npos) << word << " in: " << text;
  };
  const Params one = params();
  says({"memory has no tensor none.weight", "[3, 4]"}, [&] { one.sub("none").matrix(3, 4, Split::none, kBf16); });
  says({"memory: tensor b.weight has shape [6, 8], the configuration says [8, 6]"},
       [&] { one.sub("b").matrix(8, 6, Split::none, kBf16); });
  says({"tensor bare.weight holds e4m3, the configuration says bf16", "quantization_config"},
       [&] { one.sub("bare").matrix(4, 4, Split::none, kBf16); });
  says({"no tensor bare.scale"}, [&] { one.sub("bare").matrix(4, 4, Split::none, kFp8Block128); });
  says({"tensor a.weight holds e4m3"}, [&] { one.sub("a").plain_matrix(384, 256, Split::none); });
  says({"no tensor norm.weight"}, [&] { one.sub("norm").vector("weight", 4); });
  const auto first = std::move(store_);
  const Params four = params(0, 4);
  says({"Output features must be divisible by world size (world_size=4): b.weight has 6", "work: 1, 2, 3, 6"},
       [&] { four.sub("b").matrix(6, 8, Split::out, kBf16); });
  says({"a.weight: a cut of dimension 0 (384 entries)", "inside a block of 128 (fp8_block128)", "work: 1, 3"},
       [&] { four.sub("a").matrix(384, 256, Split::out, kFp8Block128); });
}

}  // namespace
}  // namespace fathom
