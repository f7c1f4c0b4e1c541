// Ranks and models side by side: 1 = 2 = 4 ranks as threads; two models at once do not disturb each other; a pass only
// enqueues and uses the same addresses each time.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <thread>

#include "backends/cpu/cpu_backend.h"
#include "base/hash.h"
#include "checkpoint/safetensors.h"
#include "ops/trace.h"
#include "support/golden.h"
#include "support/model_session.h"

namespace fathom::test {
namespace {

ModelSession::Settings float32(AttnImpl attn = AttnImpl::absorb) {
  ModelSession::Settings settings;
  settings.options.compute = DType::f32;
  settings.options.attn = attn;
  settings.threads = 1;
  return settings;
}

struct Prompt {
  std::vector<int> ids, forced;
};

// Every rank runs the same prompt; rank 0's rows.
ModelSession::Rows run_on_ranks(const ModelArgs& args, const Checkpoint& weights, const Prompt& prompt, int ranks,
                                const ModelSession::Settings& settings) {
  auto comms = make_thread_communicators(ranks);
  std::vector<ModelSession::Rows> rows(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < rows.size(); ++r)
    threads.emplace_back([&, r] {
      Communicator& comm = *comms[r];
      try {
        ModelSession session(args, weights, settings, std::move(comms[r]));
        rows[r] = session.run(0, prompt.ids, prompt.forced);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << r << ": " << error.what();
        comm.abort();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& other : rows) EXPECT_EQ(other, rows[0]) << "ranks disagree";
  return rows[0];
}

TEST(Parallel, RanksGiveWhatOneGives) {
  for (const char* name : {"v2-bf16", "v3-fp8"})
    for (const AttnImpl attn : {AttnImpl::absorb, AttnImpl::naive}) {
      const Golden golden(name);
      const auto run = [&](int ranks) {
        return run_on_ranks(golden.args, *golden.weights, {golden.ids("p17"), golden.forced("p17")}, ranks,
                            float32(attn));
      };
      const auto one = run(1);
      for (const int ranks : {2, 4}) {
        const auto many = run(ranks);
        ASSERT_EQ(many.size(), one.size());
        for (std::size_t i = 0; i < one.size(); ++i) EXPECT_LT(relative_error(many[i], one[i]), 2e-5) << name << ranks;
      }
    }
}

// The checkpoint as one file of a Hugging Face directory.
void write_files(const Checkpoint& weights, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::vector<TensorInfo> tensors = weights.tensors();
  for (TensorInfo& info : tensors) info.name = hf_name(info.name).value();
  SafetensorsWriter writer(folder / "model.safetensors", tensors);
  for (const TensorInfo& info : writer.tensors()) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(info.bytes()));
    weights.read(*weights.find(reference_name(info.name).value()), {}, bytes);
    writer.write(bytes);
  }
  writer.finish();
}

// Each rank's rows lie in the file as the model wants them, its columns do not.
TEST(Parallel, WeightsInPlaceGiveTheSameBits) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("fathom-parallel-{}", ::getpid());
  for (const char* name : {"v2-bf16", "v3-fp8"}) {
    const Golden golden(name);
    write_files(*golden.weights, folder);
    const auto weights = open_checkpoint(folder);
    const auto run = [&](int ranks, bool map) {
      ModelSession::Settings settings = float32();
      settings.map = map;
      return run_on_ranks(golden.args, *weights, {golden.ids("p17"), golden.forced("p17")}, ranks, settings);
    };
    for (const int ranks : {1, 2}) EXPECT_EQ(run(ranks, true), run(ranks, false)) << name << ranks;
    std::filesystem::remove_all(folder);
  }
}

TEST(Parallel, TwoModelsAtOnceAreAsAlone) {
  const Golden first("v31-fp8-ue8m0"), second("v2lite-bf16");
  const auto run = [](const Golden& golden) {
    ModelSession session(golden.args, *golden.weights, float32());
    return session.run(0, golden.ids("p17"), golden.forced("p17"));
  };
  const auto first_alone = run(first), second_alone = run(second);
  ModelSession::Rows first_rows, second_rows;
  std::thread other([&] { first_rows = run(first); });
  second_rows = run(second);
  other.join();
  EXPECT_EQ(first_rows, first_alone);
  EXPECT_EQ(second_rows, second_alone);
}

// What CUDA graphs need, shown without a GPU: no allocation, no wait, no transfer in a pass, and fixed addresses.
TEST(Capture, PassesOnlyEnqueueAtFixedAddresses) {
  const Golden golden("v3-fp8");
  TraceBackend trace;
  WeightStore store(0, 1);
  for (const AttnImpl attn : {AttnImpl::absorb, AttnImpl::naive}) {
    ComputeOptions options;
    options.attn = attn;
    const Transformer model(Params(store, golden.args, options));
    const LatentCache cache(trace, golden.args, golden.args.n_layers, 8, 16, DType::bf16);
    Arena arena;  // measures only
    SingleCommunicator comm;
    Context ctx{trace, arena, comm, options};
    Arena inputs;
    const auto integers = [&](const Shape& shape) { return inputs.empty(shape, DType::i32); };
    const Sequences sequences{.positions = integers({4}),
                              .slots = integers({4}),
                              .seq_starts = integers({5}),
                              .context_lens = integers({4}),
                              .context_starts = integers({5}),
                              .block_tables = integers({4, 8}),
                              .total_context = 40,
                              .max_context = 16,
                              .expanded = attn == AttnImpl::naive};
    const Batch batch{.ids = integers({4}), .logit_rows = integers({4}), .runs = {sequences}};
    std::vector<std::string> passes[2];
    for (auto& pass : passes) {
      const ArenaScope scope(arena);
      trace.begin_pass();
      model(ctx, batch, cache);
      pass = trace.end_pass();
    }
    EXPECT_GT(passes[0].size(), 50u);
    EXPECT_EQ(passes[0], passes[1]);
  }
  trace.begin_pass();
  float value = 0;
  EXPECT_THROW(trace.download(&value, Tensor(&value, DType::f32, {1})), Error);
  EXPECT_THROW(trace.allocate(16), Error);
  EXPECT_THROW(trace.synchronize(), Error);
  trace.end_pass();
}

// A second rank costs the collectives and nothing else: one after attention and one after the experts of each layer,
// one for the embedding, and the gathering of logits. The other operations are those of one rank, optional ones too.
TEST(Parallel, RanksCostCollectivesOnly) {
  class TakesAll final : public CpuBackend {  // as a GPU's decode step does
   public:
    using Bytes = std::optional<i64>;
    TakesAll() : CpuBackend(1) {}
    Bytes scratch_bytes(const op::NormLinear&) const override { return 0; }
    Bytes scratch_bytes(const op::LinearAdd&) const override { return 0; }
    Bytes scratch_bytes(const op::LatentAttention&) const override { return 0; }
    Bytes scratch_bytes(const op::GroupedSwiGlu&) const override { return 0; }
    Bytes scratch_bytes(const op::Experts&) const override { return 0; }
  } all;
  for (const char* name : {"v2lite-bf16", "v3-fp8"}) {
    const Golden golden(name);
    std::map<int, std::map<std::string, i64>> calls;
    for (const int ranks : {1, 2}) {
      AbsentRanks comm(0, ranks);
      WeightStore store(0, ranks);
      const Transformer model(Params(store, golden.args, {}));
      TraceBackend trace(static_cast<const Backend*>(&all));
      const LatentCache cache(trace, golden.args, golden.args.n_layers, 8, 16, DType::bf16);
      Arena arena, inputs;
      Context ctx{trace, arena, comm, {}};
      const auto integers = [&](const Shape& shape) { return inputs.empty(shape, DType::i32); };
      const Sequences one{
          integers({1}), integers({1}), integers({2}), integers({1}), integers({2}), integers({1, 8}), 0, 16, 16};
      trace.begin_pass();
      model(ctx, {.ids = integers({1}), .logit_rows = integers({1}), .runs = {one}}, cache);
      for (const std::string& line : trace.end_pass()) ++calls[ranks][line.substr(0, line.find(' '))];
    }
    const i64 layers = golden.args.n_layers;
    std::map<std::string, i64> expected = calls[1];
    EXPECT_GT(expected["linear_add_"], 0);
    expected["linear"] += expected["linear_add_"];  // the same product, not added where it is made
    expected.erase("linear_add_");
    expected["add_reduced_"] = 2 * layers;
    expected["all_reduce"] = 1;
    expected["all_gather"] = 1;
    expected["copy"] += 2;  // the ranks' logits side by side
    EXPECT_EQ(calls[2], expected) << name;
    i64 sums[3] = {};
    for (const int ranks : {1, 2})
      for (const auto& [op, count] : calls[ranks]) sums[ranks] += count;
    std::printf("%s: %.1f operations a layer at one rank, %.1f at two\n", name,
                static_cast<double>(sums[1]) / static_cast<double>(layers),
                static_cast<double>(sums[2]) / static_cast<double>(layers));
  }
}

// The manifest's slices are the reference converter's: names, types, shapes and bytes of every rank's file.
TEST(Manifest, SlicesEqualTheReferenceConverter) {
  for (const std::string& name : golden_names()) {
    const Golden golden(name);
    for (const int ranks : {1, 2, 4}) {
      const nlohmann::json& tables = golden.json["convert"][std::to_string(ranks)];
      if (tables.is_string()) {
        EXPECT_THROW(manifest(golden.args, 0, ranks), Error) << name << ": the reference refuses " << ranks << " ranks";
        continue;
      }
      for (int rank = 0; rank < ranks; ++rank) {
        const nlohmann::json& table = tables[static_cast<std::size_t>(rank)];
        const auto entries = manifest(golden.args, rank, ranks);
        EXPECT_EQ(entries.size(), table.size()) << name << " rank " << rank << " of " << ranks;
        for (const ManifestEntry& entry : entries) {
          ASSERT_TRUE(table.contains(entry.full.name)) << entry.full.name;
          const TensorInfo* info = golden.weights->find(entry.full.name);
          ASSERT_NE(info, nullptr);
          std::vector<std::byte> bytes(static_cast<std::size_t>(entry.shape().numel() * size_of(info->dtype)));
          golden.weights->read(*info, entry.slice, bytes);
          const nlohmann::json& expected = table[entry.full.name];
          EXPECT_EQ(sha256_hex(bytes), expected[2].get<std::string>()) << name << " " << entry.full.name;
          const auto shape = expected[1].get<std::vector<i64>>();
          EXPECT_EQ(entry.shape(), Shape(std::span<const i64>(shape))) << entry.full.name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace fathom::test
