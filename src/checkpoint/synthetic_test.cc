#include "checkpoint/synthetic.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "checkpoint/slice.h"

namespace fathom {
namespace {

using json = nlohmann::json;
namespace fs = std::filesystem;

json golden(const std::string& name) {
  return json::parse(read_file(fs::path(std::getenv("FATHOM_TEST_DATA")) / "golden/golden" / (name + ".json")));
}

DType dtype_of(const std::string& torch) {
  if (torch == "bfloat16") return DType::bf16;
  if (torch == "float32") return DType::f32;
  EXPECT_EQ(torch, "float8_e4m3fn");
  return DType::e4m3;
}

std::vector<TensorInfo> listed_tensors(const json& hf) {
  std::vector<TensorInfo> tensors;
  for (const auto& [name, row] : hf.items()) {
    const auto dims = row[1].get<std::vector<i64>>();
    const auto reference = reference_name(name);
    EXPECT_TRUE(reference.has_value()) << name;
    if (reference) tensors.push_back({*reference, dtype_of(row[0]), Shape(dims)});
  }
  return tensors;
}

std::vector<std::byte> read_part(const Checkpoint& checkpoint, const TensorInfo& info, const Slice& slice) {
  std::vector<std::byte> out(static_cast<std::size_t>(slice_shape(info, slice).numel() * size_of(info.dtype)));
  checkpoint.read(info, slice, out);
  return out;
}

class Golden : public testing::TestWithParam<const char*> {};

// Equal hashes of every tensor: generator, rounding and block quantiser are those of the published formula.
TEST_P(Golden, EveryTensorHasThePublishedHash) {
  const json table = golden(GetParam());
  const SyntheticCheckpoint checkpoint("synthetic", listed_tensors(table["hf"]), 7,
                                       std::string(GetParam()).ends_with("ue8m0"));
  std::size_t equal = 0;
  for (const TensorInfo& info : checkpoint.tensors()) {
    const json& row = table["hf"][*hf_name(info.name)];
    if (sha256_hex(read_part(checkpoint, info, {})) == row[2])
      ++equal;
    else
      ADD_FAILURE() << info.name;
  }
  EXPECT_EQ(equal, table["hf"].size());
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, Golden,
                         testing::Values("v2lite-bf16", "v2lite-short", "v2-bf16", "v3-fp8", "v31-fp8-ue8m0"));

TEST(Synthetic, SlicesEqualPartsOfTheWhole) {
  const std::vector<TensorInfo> tensors = {{"layers.0.attn.wo.weight", DType::e4m3, {300, 520}},
                                           {"layers.0.attn.wo.scale", DType::f32, {3, 5}},
                                           {"layers.0.ffn.gate.bias", DType::f32, {700}},
                                           {"head.weight", DType::bf16, {37, 301}}};
  const SyntheticCheckpoint checkpoint("synthetic", tensors, 3, true);
  for (const TensorInfo& info : checkpoint.tensors()) {
    const auto whole = read_part(checkpoint, info, {});
    for (int dim = 0; dim < info.shape.rank(); ++dim)
      for (i64 start = 0; start < info.shape[dim]; start += 1 + info.shape[dim] / 7)
        for (const i64 length : {i64{0}, i64{1}, (info.shape[dim] - start) / 2, info.shape[dim] - start}) {
          const Slice slice{dim, start, length};
          auto expected = read_part(checkpoint, info, slice);
          std::fill(expected.begin(), expected.end(), std::byte{0x5a});
          copy_slice(info, slice, whole, expected);
          EXPECT_TRUE(read_part(checkpoint, info, slice) == expected)
              << info.name << dim << " " << start << " " << length;
        }
  }
}

TEST(Synthetic, MomentsFollowTheName) {
  const auto deviation = [](const char* name, i64 columns) {
    std::vector<float> values(static_cast<std::size_t>(100 * columns));
    SyntheticTensor(1, name, Shape{100, columns}).values(0, values);
    double sum = 0, squares = 0;
    for (const float v : values) sum += v, squares += v * v;
    const double mean = sum / static_cast<double>(values.size());
    return std::pair(mean, std::sqrt(squares / static_cast<double>(values.size()) - mean * mean));
  };
  const auto near = [&](const char* name, double mean, double std) {
    const auto [m, s] = deviation(name, 400);
    EXPECT_NEAR(m, mean, 0.03 * std) << name;
    EXPECT_NEAR(s, std, 0.03 * std) << name;
  };
  near("model.embed_tokens.weight", 0, 1);
  near("model.layers.9.embed_tokens.weight", 0, 1);
  near("lm_head.weight", 0, 0.2);
  near("model.layers.9.shared_head.head.weight", 0, 0.2);
  near("model.layers.1.mlp.gate.weight", 0, 0.1);
  near("model.layers.1.mlp.gate_proj.weight", 0, 0.05);
  near("model.layers.1.mlp.gate.e_score_correction_bias", 0, 0.05);
  near("model.layers.9.enorm.weight", 1, 0.1);
  near("model.layers.1.self_attn.kv_a_layernorm.weight", 1, 0.1);
}

TEST(Synthetic, RefusesWhatItCannotMake) {
  const SyntheticCheckpoint checkpoint(
      "synthetic", {{"head.weight", DType::f16, {2, 2}}, {"nobody.weight", DType::bf16, {2, 2}}}, 0, false);
  std::vector<std::byte> room(8);
  EXPECT_THROW(checkpoint.read(checkpoint.tensors()[0], {}, room), Error);
  EXPECT_THROW(checkpoint.read(checkpoint.tensors()[1], {}, room), Error);
  EXPECT_EQ(checkpoint.find("missing"), nullptr);
  EXPECT_THROW(SyntheticCheckpoint("twice", {{"a", DType::f32, {1}}, {"a", DType::f32, {1}}}, 0, false), Error);
}

TEST(Names, TranslateBothWaysAndExactly) {
  const std::pair<const char*, const char*> names[] = {
      {"model.embed_tokens.weight", "embed.weight"},
      {"lm_head.weight", "head.weight"},
      {"model.layers.0.self_attn.q_a_proj.weight_scale_inv", "layers.0.attn.wq_a.scale"},
      {"model.layers.60.mlp.experts.255.down_proj.weight", "layers.60.ffn.experts.255.w2.weight"},
      {"model.layers.3.mlp.gate.e_score_correction_bias", "layers.3.ffn.gate.bias"},
      {"model.layers.61.embed_tokens.weight", "layers.61.embed.weight"},
      {"model.layers.61.eh_proj.weight", "layers.61.eh_proj.weight"},
      {"model.layers.61.shared_head.norm.weight", "layers.61.shared_head.norm.weight"},
      {"model.layers.61.shared_head.head.weight", "layers.61.shared_head.head.weight"},
  };
  for (const auto& [hf, reference] : names) {
    EXPECT_EQ(reference_name(hf), reference);
    EXPECT_EQ(hf_name(reference), hf);
  }
  EXPECT_EQ(reference_name("model.layers.0.mlp.up_proj.weight_scale"), "layers.0.ffn.w3.scale");
  for (const char* other :
       {"", "model.", "model.layers.0.self_attn.rotary_emb.inv_freq", "model.layers.00.input_layernorm.weight",
        "model.layers.x.input_layernorm.weight", "model.layers.1", "model.layers.1.mlp.experts.gate_proj.weight",
        "model.layers.1.mlp.experts.1.gate_proj", "model.layers.99999999999.input_layernorm.weight", "embed.weight"})
    EXPECT_EQ(reference_name(other), std::nullopt) << other;
}

}  // namespace
}  // namespace fathom
