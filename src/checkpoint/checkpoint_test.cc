#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/file.h"
#include "checkpoint/file_checkpoint.h"
#include "checkpoint/slice.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

// A folder of its own for each test.
class CheckpointFolder : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() / fmt::format("fathom-checkpoint-{}-{}", ::getpid(), test->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // A file whose tensors hold the bytes 0, 1, 2, ... each.
  void write(const std::string& file, const std::vector<TensorInfo>& tensors) const {
    SafetensorsWriter writer(folder_ / file, tensors);
    for (const TensorInfo& info : writer.tensors()) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(info.bytes()));
      for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
      writer.write(bytes);
    }
    writer.finish();
  }

  void write_index(const std::string& weight_map) const {
    write_file(folder_ / kIndexFile, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": " + weight_map + "}");
  }

  std::string refusal(int rank = 0, int world_size = 1) const {
    try {
      open_checkpoint(folder_, rank, world_size);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  void expect_refusal(const std::string& word, int rank = 0, int world_size = 1) const {
    const std::string message = refusal(rank, world_size);
    EXPECT_NE(message.find(word), std::string::npos) << "wanted " << word << ", got " << message;
  }

  fs::path folder_;
};

const TensorInfo kEmbed{"model.embed_tokens.weight", DType::bf16, {4, 2}};
const TensorInfo kNorm{"model.norm.weight", DType::bf16, {2}};

TEST_F(CheckpointFolder, MapsAreTheBytesThatReadGives) {
  const TensorInfo widened{"model.layers.0.self_attn.o_proj.weight_scale_inv", DType::bf16, {1, 1}};
  write("a.safetensors", {kEmbed, kNorm, {"model.layers.0.self_attn.o_proj.weight", DType::e4m3, {2, 2}}, widened});
  const auto checkpoint = open_checkpoint(folder_);
  for (const TensorInfo& info : checkpoint->tensors()) {
    const std::byte* map = checkpoint->map(info);
    ASSERT_EQ(map == nullptr, info.name == "layers.0.attn.wo.scale") << info.name;  // float32 to the reader
    if (map == nullptr) continue;
    std::vector<std::byte> bytes(static_cast<std::size_t>(info.bytes()));
    checkpoint->read(info, {}, bytes);
    EXPECT_EQ(std::memcmp(map, bytes.data(), bytes.size()), 0) << info.name;
  }
  EXPECT_EQ(checkpoint->map({"layers.0.attn.wq.weight", DType::bf16, {2, 2}}), nullptr);
}

// The header may leave numbers at odd addresses: they have to be copied.
TEST_F(CheckpointFolder, NumbersAtOddAddressesAreNotMapped) {
  std::string header = R"({"model.norm.weight":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}})";
  header.resize(header.size() % 2 == 0 ? header.size() + 1 : header.size(), ' ');
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  write_file(folder_ / "a.safetensors", file + header + "abcd");
  const auto checkpoint = open_checkpoint(folder_);
  EXPECT_EQ(checkpoint->map(*checkpoint->find("norm.weight")), nullptr);
}

TEST_F(CheckpointFolder, IndexDecidesWhichFilesCount) {
  write("a.safetensors", {kEmbed});
  write("b.safetensors", {kNorm, {"lm_head.weight", DType::bf16, {4, 2}}});
  write("consolidated.safetensors", {kEmbed, kNorm});  // a stray copy
  write_index(R"({"model.embed_tokens.weight": "a.safetensors", "model.norm.weight": "b.safetensors"})");
  const auto checkpoint = open_checkpoint(folder_);
  ASSERT_EQ(checkpoint->tensors().size(), 2u);
  EXPECT_EQ(checkpoint->find("embed.weight")->shape, (Shape{4, 2}));
  EXPECT_EQ(checkpoint->find("head.weight"), nullptr);  // in a file, but not in the index
  EXPECT_EQ(checkpoint->untranslated(), std::vector<std::string>{"lm_head.weight (not in the index)"});
  EXPECT_EQ(checkpoint->shards(), 1);
  std::vector<std::byte> part(4);
  checkpoint->read(*checkpoint->find("embed.weight"), {0, 2, 1}, part);
  EXPECT_EQ(part[0], std::byte{8});
}

TEST_F(CheckpointFolder, DamagedIndexesAreRefused) {
  write("a.safetensors", {kEmbed});
  write_index(R"({"model.embed_tokens.weight": "a.safetensors", "model.norm.weight": "gone.safetensors"})");
  expect_refusal("is incomplete: gone.safetensors, named by model.safetensors.index.json, is missing");
  write_index(R"({"model.embed_tokens.weight": "a.safetensors", "model.norm.weight": "a.safetensors"})");
  expect_refusal("a.safetensors has no tensor model.norm.weight");
  write_index(R"({"model.embed_tokens.weight": 3})");
  expect_refusal("must be a file name, not 3");
  for (const char* file : {"../a.safetensors", "/etc/a.safetensors", "..", "", ".safetensors", "a.bin"}) {
    write_index(fmt::format(R"({{"model.embed_tokens.weight": "{}"}})", file));
    expect_refusal("of the same folder is expected");
  }
  write_index("{}");
  expect_refusal("names no files");
  write_index("[]");
  expect_refusal("has no object \"weight_map\"");
  write_index("{");
  expect_refusal("not valid JSON");
}

TEST_F(CheckpointFolder, WithoutIndexAllFilesCountAndNoneTwice) {
  write("a.safetensors", {kEmbed});
  write("b.safetensors", {kNorm, {"model.layers.0.self_attn.rotary_emb.inv_freq", DType::f32, {4}}});
  const auto checkpoint = open_hf_directory(folder_);
  EXPECT_EQ(checkpoint->tensors().size(), 2u);
  EXPECT_EQ(checkpoint->untranslated(), (std::vector<std::string>{"model.layers.0.self_attn.rotary_emb.inv_freq"}));
  write("c.safetensors", {kNorm});
  expect_refusal("tensor model.norm.weight appears twice");
}

TEST_F(CheckpointFolder, TruncatedShardIsNamed) {
  write("a.safetensors", {kEmbed});
  const auto size = fs::file_size(folder_ / "a.safetensors");
  fs::resize_file(folder_ / "a.safetensors", size - 3);
  expect_refusal(fmt::format("a.safetensors is truncated: {} of {} bytes", size - 3, size));
}

TEST_F(CheckpointFolder, TiedHeadIsTheEmbedding) {
  write("a.safetensors", {kEmbed});
  write_file(folder_ / "config.json", R"({"tie_word_embeddings": false})");
  EXPECT_EQ(open_checkpoint(folder_)->find("head.weight"), nullptr);
  write_file(folder_ / "config.json", R"({"tie_word_embeddings": true})");
  const auto tied = open_checkpoint(folder_);
  ASSERT_NE(tied->find("head.weight"), nullptr);
  std::vector<std::byte> head(16);
  tied->read(*tied->find("head.weight"), {}, head);
  EXPECT_EQ(head[5], std::byte{5});
  write("a.safetensors", {kEmbed, {"lm_head.weight", DType::bf16, {8, 2}}});  // its own head after all
  EXPECT_EQ(open_checkpoint(folder_)->find("head.weight")->shape, (Shape{8, 2}));
}

TEST_F(CheckpointFolder, MtpLayerMayShareEmbeddingAndHead) {
  write("a.safetensors",
        {kEmbed, {"lm_head.weight", DType::bf16, {4, 2}}, {"model.layers.3.eh_proj.weight", DType::bf16, {2, 4}}});
  const auto checkpoint = open_checkpoint(folder_);
  EXPECT_NE(checkpoint->find("layers.3.embed.weight"), nullptr);
  EXPECT_NE(checkpoint->find("layers.3.shared_head.head.weight"), nullptr);
}

TEST_F(CheckpointFolder, ScalesAreFloat32HoweverTheyAreStored) {
  write("a.safetensors", {{"model.layers.0.self_attn.o_proj.weight_scale_inv", DType::e8m0, {2, 128}},
                          {"model.layers.0.self_attn.q_proj.weight_scale", DType::bf16, {2, 3}},
                          {"model.layers.0.self_attn.kv_b_proj.weight_scale_inv", DType::f32, {1, 1}}});
  const auto checkpoint = open_checkpoint(folder_);
  for (const TensorInfo& info : checkpoint->tensors()) EXPECT_EQ(info.dtype, DType::f32) << info.name;
  float scales[2] = {};
  checkpoint->read(*checkpoint->find("layers.0.attn.wo.scale"), {1, 127, 1}, std::as_writable_bytes(std::span(scales)));
  EXPECT_EQ(scales[0], 1.0f);  // code 127
  EXPECT_TRUE(std::isnan(scales[1]));
  checkpoint->read(*checkpoint->find("layers.0.attn.wq.scale"), {1, 2, 1}, std::as_writable_bytes(std::span(scales)));
  EXPECT_EQ(scales[0], bf16_to_float(0x0504));
  write("b.safetensors", {{"model.layers.1.self_attn.o_proj.weight_scale_inv", DType::f16, {2, 2}}});
  expect_refusal("is of type f16");
}

TEST_F(CheckpointFolder, ConvertedDirectories) {
  write("model0-mp2.safetensors", {{"embed.weight", DType::bf16, {2, 2}}});
  write("model1-mp2.safetensors", {{"embed.weight", DType::bf16, {2, 2}}, {"extra", DType::bf16, {2}}});
  const auto checkpoint = open_checkpoint(folder_, 1, 2);
  EXPECT_EQ(checkpoint->shards(), 2);
  EXPECT_EQ(checkpoint->tensors().size(), 1u);
  expect_refusal(
      "model0-mp1.safetensors is missing (rank 0 of world size 1); the folder holds a conversion for world size 2");
  fs::remove(folder_ / "model1-mp2.safetensors");
  expect_refusal("model1-mp2.safetensors is missing", 1, 2);
  EXPECT_EQ(sharded_sizes(folder_), std::vector<int>{2});
}

TEST_F(CheckpointFolder, OtherFoldersSayWhatWasLookedFor) {
  expect_refusal("is no checkpoint: it has neither model.safetensors.index.json nor *.safetensors");
  write_file(folder_ / "model.gguf", "GGUF");
  expect_refusal("model.gguf is not in a supported format");
  write("x.safetensors", {{"bert.pooler.weight", DType::bf16, {2}}});
  expect_refusal("holds no tensor of a DeepSeek-V2 or V3 model; the first is bert.pooler.weight");
  EXPECT_THROW(open_checkpoint(folder_ / "nowhere"), Error);
  EXPECT_THROW(open_checkpoint(folder_ / "model.gguf"), Error);
}

TEST(Checkpoint, EmbeddedModel) {
  const fs::path tiny = fs::path(std::getenv("FATHOM_SOURCE_DIR")) / "models/tiny";
  const auto checkpoint = open_hf_directory(tiny);
  EXPECT_TRUE(checkpoint->untranslated().empty());
  EXPECT_EQ(checkpoint->files().size(), 2u);
  i64 bytes = 0;
  for (const TensorInfo& info : checkpoint->tensors()) {
    bytes += info.bytes();
    std::vector<std::byte> data(static_cast<std::size_t>(info.bytes()));
    checkpoint->read(info, {}, data);
  }
  EXPECT_EQ(bytes, 25876728);  // total_size of its index
  ASSERT_NE(checkpoint->find("layers.6.eh_proj.weight"), nullptr);
  EXPECT_EQ(checkpoint->find("layers.6.eh_proj.weight")->shape, (Shape{256, 512}));
  EXPECT_EQ(checkpoint->find("layers.0.attn.wkv_a.scale")->shape, (Shape{5, 2}));
}

}  // namespace
}  // namespace fathom
