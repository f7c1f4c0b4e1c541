#include "engine/memory.h"

#include <gtest/gtest.h>

#include "backends/cpu/cpu_backend.h"
#include "model/manifest.h"
#include "support/planned_scratch.h"

namespace fathom {
namespace {

constexpr i64 kGiB = i64{1} << 30;

Limits limits_of(i64 blocks) {
  return {.max_tokens = 64, .max_sequences = 4, .max_rows = 4, .max_seq_len = 1600, .blocks = blocks, .block_size = 16};
}

std::optional<DeviceMemory> device(i64 free) { return DeviceMemory{"GPU 0 (a card)", free, 100 * kGiB}; }

TEST(Memory, CacheTakesWhatIsWantedOrWhatFits) {
  const MemoryNeed need{10 * kGiB, 2 * kGiB, kGiB / 16};
  EXPECT_EQ(fitting_blocks(need, limits_of(0), std::nullopt), 400);  // four sequences of 100 blocks
  EXPECT_EQ(fitting_blocks(need, limits_of(7), std::nullopt), 7);    // as asked
  EXPECT_EQ(fitting_blocks(need, limits_of(0), device(90 * kGiB)), 400);
  // 12 GiB are taken, a quarter and a hundredth of the card stay free: 18.75 GiB are left for the cache.
  EXPECT_EQ(fitting_blocks(need, limits_of(0), device(32 * kGiB)), 300);
  EXPECT_EQ(fitting_blocks(need, limits_of(200), device(32 * kGiB)), 200);
}

TEST(Memory, TooLittleIsToldWithNumbersAndOptions) {
  const MemoryNeed need{10 * kGiB, 2 * kGiB, kGiB / 16};
  const auto refusal = [&](i64 blocks, i64 free) {
    try {
      fitting_blocks(need, limits_of(blocks), device(free));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal(0, 20 * kGiB), "");  // 108 blocks fit, a sequence has 100
  const std::string too_little = refusal(0, 19 * kGiB);
  for (const char* part : {"GPU 0 (a card)", "10.00 GiB of weights", "2.00 GiB of scratch", "6.25 GiB of cache",
                           "1600 tokens", "19.00 GiB of 100.00 GiB are free", "--max-seq-len", "--cache-tokens"})
    EXPECT_NE(too_little.find(part), std::string::npos) << part << " in: " << too_little;
  EXPECT_NE(refusal(301, 32 * kGiB), "");
  EXPECT_NE(refusal(1, 11 * kGiB), "");  // not even the weights
}

TEST(Memory, TheMachinesMemoryIsToldInFit) {
  const MemoryNeed need{100 << 20, 20 << 20, 1 << 18};
  try {
    fitting_blocks(need, limits_of(0), DeviceMemory{"this control group", 150 << 20, 1 << 30, true});
    FAIL();
  } catch (const Error& error) {
    for (const char* part : {"this control group is too small: 100.0 MiB of weights, 20.0 MiB of scratch",
                             "25.0 MiB of cache for 1600 tokens", "150.0 MiB of 1.00 GiB are free", "--mmap"})
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << part << " in: " << error.what();
  }
}

// The dry measure counts what the manifest lists; the absorbed form keeps wkv_b as two bf16 matrices, and there is a
// table of rotations.
TEST(Memory, WeightsAreThoseOfTheManifest) {
  ModelArgs args;
  RunnerOptions options{.limits = limits_of(0), .compute = {}};
  options.limits.max_seq_len = args.max_seq_len;
  i64 listed = 0;
  for (const ManifestEntry& entry : manifest(args)) {
    const bool vector = entry.full.shape.rank() == 1;  // kept as float32
    listed += entry.shape().numel() * (vector ? 4 : size_of(entry.full.dtype));
  }
  const MemoryNeed need = measure_memory(args, options);
  EXPECT_GE(need.weights, listed);
  EXPECT_LT(need.weights, listed + listed / 100 + args.max_seq_len * args.qk_rope_head_dim * 4);
  EXPECT_EQ(need.block, args.n_layers * 16 * (args.kv_lora_rank + args.qk_rope_head_dim) * 2);
  EXPECT_GT(need.scratch, 0);
  RunnerOptions more = options;
  more.limits.max_tokens *= 4;
  EXPECT_GT(measure_memory(args, more).scratch, need.scratch);
}

TEST(Memory, EveryPassIsInThePlan) {
  const CpuBackend cpu(2);
  for (const ModelArgs& args : test::scratch_models())
    for (const AttnImpl attn : {AttnImpl::absorb, AttnImpl::naive})
      for (const auto& [tokens, sequences] : {std::pair<i64, i64>{512, 8}, {4096, 64}, {100, 100}}) {
        SCOPED_TRACE(fmt::format("{} heads, passes of {} tokens", args.n_heads, tokens));
        test::expect_passes_planned(
            cpu, args, {.limits = {.max_tokens = tokens, .max_sequences = sequences}, .compute = {.attn = attn}}, 100);
      }
}

// A device that takes more scratch for one token than for many, as one that divides its context does.
TEST(Memory, PassesOfFewTokensAreMeasured) {
  class Dividing final : public CpuBackend {
   public:
    Dividing() : CpuBackend(1) {}
    std::optional<i64> scratch_bytes(const op::LatentAttention& op) const override {
      return op.q.dim(0) == 1 ? 4 * kGiB : 0;
    }
  } device;
  const ModelArgs args;
  const RunnerOptions options{.limits = limits_of(0), .compute = {}};
  const MemoryNeed need = measure_memory(args, options, WeightStore(device, 0, 1));
  EXPECT_GE(need.scratch, 4 * kGiB);
  EXPECT_LT(need.scratch, 5 * kGiB);
}

}  // namespace
}  // namespace fathom
