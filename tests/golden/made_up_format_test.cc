// A number format that the program does not know, and a checkpoint that stores some of a model's matrices in it: the
// model runs all the same, on every device. Nothing outside this file knows the format.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "backends/cpu/cpu_backend.h"
#include "backends/create.h"
#include "checkpoint/slice.h"
#include "checkpoint/synthetic.h"
#include "engine/memory.h"
#include "engine/runner.h"
#include "model/manifest.h"
#include "support/model_session.h"

namespace fathom::test {
namespace {

// Six bits a number, four numbers in three bytes. Each 48 numbers of a row share a bf16 scale and a zero point:
// value = (code - zero) * scale.
class SixBits final : public Format {
 public:
  SixBits()
      : Format({.name = "six_bits",
                .element = DType::u8,
                .bits = 6,
                .group_rows = 1,
                .group_cols = 48,
                .scale_type = DType::bf16,
                .zero_type = DType::u8}) {}

  void quantize(const float* w, i64 out, i64 in, void* data, void* scale, void* zero) const override {
    auto* bytes = static_cast<std::uint8_t*>(data);
    std::fill_n(bytes, out * in * 6 / 8, std::uint8_t{0});
    for_each(out, in, [&](i64 group, i64 first, i64 count) {
      const auto [least, most] = std::minmax_element(w + first, w + first + count);
      const bf16_bits step = float_to_bf16((*most - *least) / 62);
      const float by = bf16_to_float(step);
      const float origin = std::round(-*least / by);
      static_cast<bf16_bits*>(scale)[group] = step;
      static_cast<std::uint8_t*>(zero)[group] = static_cast<std::uint8_t>(origin);
      for (i64 i = first; i < first + count; ++i)
        for (int b = 0; b < 6; ++b)
          if (static_cast<int>(std::clamp(std::round(w[i] / by) + origin, 0.0f, 63.0f)) >> b & 1)
            bytes[(i * 6 + b) / 8] = static_cast<std::uint8_t>(bytes[(i * 6 + b) / 8] | 1 << (i * 6 + b) % 8);
    });
  }

  void dequantize(const void* data, const void* scale, const void* zero, i64 out, i64 in, float* y) const override {
    const auto* bytes = static_cast<const std::uint8_t*>(data);
    for_each(out, in, [&](i64 group, i64 first, i64 count) {
      for (i64 i = first; i < first + count; ++i) {
        int code = 0;
        for (int b = 0; b < 6; ++b) code |= (bytes[(i * 6 + b) / 8] >> (i * 6 + b) % 8 & 1) << b;
        y[i] = static_cast<float>(code - static_cast<const std::uint8_t*>(zero)[group]) *
               bf16_to_float(static_cast<const bf16_bits*>(scale)[group]);
      }
    });
  }

 private:
  // Calls body(group, index of its first number, how many numbers it has).
  template <typename Body>
  void for_each(i64 out, i64 in, Body&& body) const {
    for (i64 row = 0, group = 0; row < out; ++row)
      for (i64 c = 0; c < in; c += 48, ++group) body(group, row * in + c, std::min<i64>(48, in - c));
  }
};

const SixBits kSixBits;

// Another checkpoint's bf16 matrices in that format, or as the float32 numbers that this gives.
class SixBitView final : public Checkpoint {
 public:
  SixBitView(const Checkpoint& source, bool (*chosen)(const std::string& matrix), bool dequantized) : source_(source) {
    for (const TensorInfo& info : source.tensors()) {
      const std::string matrix = info.name.substr(0, info.name.rfind('.'));
      if (info.shape.rank() == 2 && chosen(matrix))
        add(matrix, info, dequantized);
      else
        tensors_.push_back(info);
    }
  }

  std::string description() const override { return "six bits of " + source_.description(); }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override {
    const auto found = std::ranges::find(tensors_, name, &TensorInfo::name);
    return found == tensors_.end() ? nullptr : &*found;
  }
  const Format* format(const std::string& matrix, const Format& configured) const override {
    return made_.contains(matrix + ".zero") ? &kSixBits : Checkpoint::format(matrix, configured);
  }
  void read(const TensorInfo& info, const Slice& slice, std::span<std::byte> out) const override {
    const auto made = made_.find(info.name);
    made == made_.end() ? source_.read(info, slice, out) : copy_slice(info, slice, made->second, out);
  }

 private:
  void add(const std::string& matrix, const TensorInfo& info, bool dequantized) {
    const i64 rows = info.shape[0], columns = info.shape[1];
    std::vector<bf16_bits> stored(static_cast<std::size_t>(rows * columns));
    source_.read(info, {}, std::as_writable_bytes(std::span(stored)));
    std::vector<float> values(stored.size());
    std::ranges::transform(stored, values.begin(), bf16_to_float);
    const Shape groups = kSixBits.scale_shape(rows, columns);
    const TensorInfo parts[] = {{matrix + ".weight", DType::u8, kSixBits.data_shape(rows, columns)},
                                {matrix + ".scale", DType::bf16, groups},
                                {matrix + ".zero", DType::u8, groups}};
    std::vector<std::byte> bytes[3];
    for (int i = 0; i < 3; ++i) bytes[i].resize(static_cast<std::size_t>(parts[i].bytes()));
    kSixBits.quantize(values.data(), rows, columns, bytes[0].data(), bytes[1].data(), bytes[2].data());
    if (dequantized) {
      kSixBits.dequantize(bytes[0].data(), bytes[1].data(), bytes[2].data(), rows, columns, values.data());
      tensors_.push_back({info.name, DType::f32, info.shape});
      const auto numbers = std::as_bytes(std::span(values));
      made_[info.name].assign(numbers.begin(), numbers.end());
      return;
    }
    for (int i = 0; i < 3; ++i) {
      tensors_.push_back(parts[i]);
      made_[parts[i].name] = bytes[i];
    }
  }

  const Checkpoint& source_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, std::vector<std::byte>> made_;
};

// Routed experts, the dense layer and part of the attention; wo and wkv_a stay bf16, and shared experts FP8.
bool chosen(const std::string& matrix) {
  const auto has = [&](const char* part) { return matrix.find(part) != std::string::npos; };
  return has(".experts.") || has(".wq") || has(".wkv_b") || has("layers.0.ffn");
}

ModelArgs small_args() {
  ModelArgs args;
  args.vocab_size = 512;
  args.dim = 256;
  args.inter_dim = 416;
  args.moe_inter_dim = 160;
  args.n_layers = 3;
  args.n_heads = 4;
  args.n_routed_experts = 8;
  args.n_activated_experts = 3;
  args.kv_lora_rank = 64;
  args.qk_nope_head_dim = 32;
  args.qk_rope_head_dim = 16;
  args.v_head_dim = 32;
  args.max_seq_len = 256;
  return args;
}

// The CPU as a device that cannot run the host's code in a pass, as a GPU is: it gets such matrices dequantised.
class StrictBackend final : public CpuBackend {
 public:
  StrictBackend() : CpuBackend(0) {}
  bool dequantizes(const Format& format) const override { return supports(format); }
};

class MadeUpFormat : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    try {
      backend_ = GetParam() == "strict" ? std::make_unique<StrictBackend>() : create_backend(GetParam(), 0);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    ModelArgs fp8 = args_;
    fp8.dtype = "fp8";
    std::vector<TensorInfo> tensors;  // bf16, but for shared experts in FP8
    for (const ManifestEntry& entry : manifest(fp8)) {
      const bool shared = entry.full.name.find(".shared_experts.") != std::string::npos;
      if (!shared && entry.full.name.ends_with(".scale")) continue;
      tensors.push_back(entry.full);
      if (!shared && entry.format != nullptr) tensors.back().dtype = DType::bf16;
    }
    mixed_ = std::make_unique<SyntheticCheckpoint>("synthetic", std::move(tensors), 5, false);
  }

  // Logits after a prompt and a token more. The runner's scratch is what was measured: a pass that takes more fails.
  std::vector<float> logits(const Checkpoint& checkpoint, const ComputeOptions& compute) {
    SingleCommunicator alone;
    Runner runner(*backend_, alone, checkpoint, args_,
                  {.limits = {.max_tokens = 32, .max_sequences = 1, .max_seq_len = 64}, .compute = compute});
    std::vector<TokenId> ids;
    for (TokenId i = 0; i < 20; ++i) ids.push_back(i * 37 % 512);
    std::vector<float> all = runner.forward(single_sequence_plan(ids, 0, 16, true), false).logits;
    const TokenId next = 99;
    const auto more = runner.forward(single_sequence_plan({&next, 1}, 20, 16, true), false).logits;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  ModelArgs args_ = small_args();
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Checkpoint> mixed_;
};

TEST_P(MadeUpFormat, LogitsAreThoseOfTheDequantisedWeights) {
  const SixBitView packed(*mixed_, chosen, false), numbers(*mixed_, chosen, true);
  for (const DType compute : {DType::f32, DType::bf16})
    for (const AttnImpl attn : {AttnImpl::absorb, AttnImpl::naive}) {
      const ComputeOptions options{.compute = compute, .attn = attn};
      const std::vector<float> got = logits(packed, options), want = logits(numbers, options);
      ASSERT_EQ(got.size(), 2 * 512u);
      // A device that dequantises when it loads rounds the weights to the type of the activations.
      const bool rounded = compute == DType::bf16 && !backend_->dequantizes(kSixBits);
      EXPECT_LT(relative_error(got, want), rounded ? 0.05 : 1e-5) << name_of(compute);
      // Six bits are seen: else this test would compare nothing.
      EXPECT_GT(relative_error(got, logits(*mixed_, options)), 0.02) << name_of(compute);
    }
}

TEST_P(MadeUpFormat, MemoryIsCountedBeforeAnythingIsLoaded) {
  const SixBitView packed(*mixed_, chosen, false), numbers(*mixed_, chosen, true);
  const RunnerOptions options{.limits = {.max_tokens = 32, .max_sequences = 1, .max_rows = 1, .max_seq_len = 64},
                              .compute = {.attn = AttnImpl::naive}};
  const auto need = [&](const Checkpoint& checkpoint) {
    return measure_memory(args_, options, WeightStore(checkpoint, *backend_, 0, 1, false));
  };
  WeightStore store(packed, *backend_, 0, 1, false);
  const Transformer model(Params(store, args_, options.compute));
  EXPECT_EQ(need(packed).weights, store.bytes());
  if (backend_->dequantizes(kSixBits)) {  // the largest matrix of these, in float32
    EXPECT_LT(need(packed).weights, need(*mixed_).weights);
    EXPECT_GE(need(packed).scratch, args_.dim * args_.inter_dim * 4);
    EXPECT_LT(need(*mixed_).scratch, args_.dim * args_.inter_dim * 4);
  } else {
    EXPECT_EQ(need(packed).weights, need(*mixed_).weights);
  }
}

// Rows fill whole bytes, and a matrix is cut between groups.
TEST(SixBitsLayout, FollowsFromTheTraits) {
  EXPECT_EQ(kSixBits.unit(0), 1);
  EXPECT_EQ(kSixBits.unit(1), 48);
  EXPECT_EQ(kSixBits.data_shape(5, 52), (Shape{5, 39}));
  EXPECT_EQ(kSixBits.scale_shape(5, 52), (Shape{5, 2}));
  EXPECT_THROW(kSixBits.data_shape(5, 50), Error);
}

INSTANTIATE_TEST_SUITE_P(Devices, MadeUpFormat, testing::Values("cpu", "strict", "cuda", "cuda-portable"),
                         [](const auto& device) {
                           return device.param == "cuda-portable" ? "portable" : device.param;
                         });

}  // namespace
}  // namespace fathom::test
