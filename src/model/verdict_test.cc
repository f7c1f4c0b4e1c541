// The verdict on made-up lists of tensors: every kind of tensor has one place in it, and the worst is told first.
#include "model/verdict.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "model/manifest.h"

namespace fathom {
namespace {

using Names = std::vector<std::string>;

// A list of tensors that nobody reads, whose files call them "file:NAME".
class Listed final : public Checkpoint {
 public:
  explicit Listed(const ModelArgs& args, int rank = 0, int ranks = 1) : shards_(ranks) {
    for (const ManifestEntry& entry : manifest(args, rank, ranks, true)) {
      tensors_.push_back(entry.full);
      tensors_.back().shape = entry.shape();
    }
  }

  std::string description() const override { return "listed"; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override {
    const auto found = std::ranges::find(tensors_, name, &TensorInfo::name);
    return found == tensors_.end() ? nullptr : &*found;
  }
  std::string stored_name(const std::string& name) const override { return "file:" + name; }
  std::vector<std::string> untranslated() const override { return others_; }
  void read(const TensorInfo& /*info*/, const Slice& /*slice*/, std::span<std::byte> /*out*/) const override {}
  int shards() const override { return shards_; }

  TensorInfo& at(const std::string& name) { return *std::ranges::find(tensors_, name, &TensorInfo::name); }

  std::vector<TensorInfo> tensors_;
  std::vector<std::string> others_;
  int shards_;
};

ModelArgs small(i64 mtp_layers) {
  ModelArgs args;
  args.dtype = "bf16";
  args.dim = 8;
  args.n_layers = 2;
  args.n_dense_layers = 1;
  args.n_routed_experts = 4;
  args.n_mtp_layers = mtp_layers;
  return args;
}

std::string refusal(const Verdict& verdict, bool ignore_unused) {
  try {
    require_sound(verdict, "it", ignore_unused);
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(Verdict, AllAreUsedOnEveryRank) {
  for (const int ranks : {1, 2})
    for (int rank = 0; rank < ranks; ++rank) {
      const Verdict verdict = judge(small(2), Listed(small(2), rank, ranks), true, rank);
      EXPECT_EQ(verdict.missing, Names{});
      EXPECT_EQ(verdict.mismatched, Names{});
      EXPECT_EQ(verdict.strays, Names{});
      EXPECT_EQ(refusal(verdict, false), "none");
      EXPECT_EQ(mtp_layers_text(small(2)), "MTP layers 2, 3");
    }
}

TEST(Verdict, StraysAreNotDerivedTensors) {
  Listed checkpoint(small(0));
  checkpoint.tensors_.push_back({"layers.1.ffn.experts.4.w1.weight", DType::bf16, {2, 2}});
  checkpoint.others_ = {"a", "b.rotary_emb.inv_freq", "c", "d"};
  const Verdict verdict = judge(small(0), checkpoint, false);
  EXPECT_EQ(verdict.strays, (Names{"file:layers.1.ffn.experts.4.w1.weight", "a", "c", "d"}));
  EXPECT_EQ(verdict.derived, Names{"b.rotary_emb.inv_freq"});
  const std::string line = refusal(verdict, false);
  EXPECT_NE(line.find("it has 4 tensors that"), std::string::npos) << line;
  EXPECT_NE(line.find(": file:layers.1.ffn.experts.4.w1.weight, a, c (and 1 more)"), std::string::npos) << line;
  EXPECT_EQ(refusal(verdict, true), "none");
}

TEST(Verdict, MissingComesBeforeMismatchedAndNeitherIsIgnored) {
  Listed checkpoint(small(0));
  checkpoint.at("norm.weight").dtype = DType::bf16;  // plain numbers are read from either type
  checkpoint.at("layers.0.attn.wo.weight").shape = {3, 4};
  EXPECT_NE(
      refusal(judge(small(0), checkpoint, false), true).find("tensor file:layers.0.attn.wo.weight is bf16 [3, 4]"),
      std::string::npos);
  checkpoint.at("layers.0.attn.wkv_a.weight").name = "layers.7.attn.wkv_a.weight";
  checkpoint.others_ = {"file:layers.0.attn.wkv_a.qweight", "file:layers.0.attn.wkv_a.deep.weight"};
  EXPECT_NE(refusal(judge(small(0), checkpoint, false), true)
                .find("tensor file:layers.0.attn.wkv_a.weight (there is file:layers.0.attn.wkv_a.qweight) is missing"),
            std::string::npos);
}

TEST(Verdict, LayersForPredictionMayBeAnythingWhereTheyAreNotUsed) {
  Listed checkpoint(small(1));
  checkpoint.at("layers.2.enorm.weight").shape = {1};
  EXPECT_EQ(refusal(judge(small(1), checkpoint, false), false), "none");
  EXPECT_NE(refusal(judge(small(1), checkpoint, true), false), "none");
}

}  // namespace
}  // namespace fathom
