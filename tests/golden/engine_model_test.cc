// The engine on a real model: the embedded one. What a request gets depends on the request alone, however it is
// scheduled. FATHOM_TEST_DEVICE chooses the device (default cpu).
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <set>

#include "backends/cpu/cpu_backend.h"
#include "backends/create.h"
#include "checkpoint/checkpoint.h"
#include "comm/communicator.h"
#include "engine/engine.h"
#include "engine/memory.h"
#include "engine/runner.h"
#include "support/model_session.h"

namespace fathom {
namespace {

using Ids = std::vector<TokenId>;

constexpr i64 kBlockSize = 16;

std::filesystem::path tiny() { return std::filesystem::path(std::getenv("FATHOM_SOURCE_DIR")) / "models/tiny"; }

bool on_cpu() { return std::getenv("FATHOM_TEST_DEVICE") == nullptr; }

std::unique_ptr<Backend> test_device() {
  return create_backend(on_cpu() ? "cpu" : std::getenv("FATHOM_TEST_DEVICE"), 2);
}

// A CPU that "records" passes: a replay runs the first recorded call again, which reads and writes the same addresses.
class RecordingCpu final : public CpuBackend {
 public:
  RecordingCpu() : CpuBackend(2) {}
  std::unique_ptr<Graph> capture(const std::function<void()>& pass) override {
    class Again final : public Graph {
     public:
      explicit Again(std::function<void()> pass) : pass_(std::move(pass)) {}
      void replay() override { pass_(); }
      i64 operations() const override { return 1; }

     private:
      std::function<void()> pass_;
    };
    return std::make_unique<Again>(pass);
  }
};

// A CPU whose host may run ahead of it, as that of a GPU may.
class AheadCpu final : public CpuBackend {
 public:
  AheadCpu() : CpuBackend(2) {}
  bool draws_ahead() const override { return true; }
};

// A CPU that says how much memory it has, of its own or of the machine.
class SmallCpu final : public CpuBackend {
 public:
  explicit SmallCpu(i64 free, bool host = false) : CpuBackend(2), free_(free), host_(host) {}
  std::optional<DeviceMemory> memory() const override { return DeviceMemory{"a small one", free_, 0, host_}; }

 private:
  i64 free_;
  bool host_;
};

// The embedded model, whose token `poison` gives numbers that are not finite.
class PoisonedCheckpoint final : public Checkpoint {
 public:
  explicit PoisonedCheckpoint(TokenId poison) : poison_(poison), whole_(open_checkpoint(tiny())) {}
  std::string description() const override { return "poisoned " + whole_->description(); }
  const std::vector<TensorInfo>& tensors() const override { return whole_->tensors(); }
  const TensorInfo* find(std::string_view name) const override { return whole_->find(name); }
  void read(const TensorInfo& info, const Slice& slice, std::span<std::byte> out) const override {
    whole_->read(info, slice, out);
    if (info.name != "embed.weight") return;
    const i64 row = info.shape[1] * size_of(info.dtype), at = (poison_ - (slice.dim == 0 ? slice.start : 0)) * row;
    CHECK(slice.dim <= 0, "columns of {}", info.name);
    if (at >= 0 && at + row <= static_cast<i64>(out.size()))
      std::fill_n(out.begin() + at, row, std::byte{0xff});  // NaN in bf16 as in float32
  }

 private:
  TokenId poison_;
  std::unique_ptr<Checkpoint> whole_;
};

// The embedded model, by default with room for `blocks` cache blocks.
struct Model {
  explicit Model(i64 blocks, ComputeOptions compute = {.compute = DType::f32}, bool record = true,
                 std::unique_ptr<Backend> device = test_device())
      : Model({.limits = {.max_seq_len = 2048, .blocks = blocks, .block_size = kBlockSize},
               .record = record,
               .compute = compute},
              std::move(device), open_checkpoint(tiny())) {}

  explicit Model(const RunnerOptions& options, std::unique_ptr<Backend> device = test_device(),
                 std::unique_ptr<Checkpoint> weights = open_checkpoint(tiny()))
      : args(load_model_args_of(tiny())),
        checkpoint(std::move(weights)),
        backend(std::move(device)),
        runner(*backend, comm, *checkpoint, with_bias(args), options) {}

  static ModelArgs with_bias(ModelArgs args) {
    args.gate_bias = true;
    return args;
  }

  SchedulerOptions options(i64 chunk = 512, i64 max_steps = 1) const {
    SchedulerOptions options{.limits = runner.limits(), .chunk = chunk, .vocab_size = args.vocab_size};
    options.limits.max_steps = max_steps;
    return options;
  }

  ModelArgs args;
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<Backend> backend;
  SingleCommunicator comm;
  Runner runner;
};

std::map<i64, Ids> run(Engine& engine, const std::vector<Request>& requests) {
  for (const Request& request : requests) engine.submit(request);
  std::map<i64, Ids> tokens;
  while (!engine.idle())
    for (const Event& event : engine.step()) {
      EXPECT_NE(event.finish, FinishReason::error) << event.error;
      if (event.token >= 0) tokens[event.request].push_back(event.token);
    }
  return tokens;
}

// Prompts of different lengths; every second one is drawn, the others are greedy.
std::vector<Request> ragged_requests(i64 count, i64 longest, i64 new_tokens) {
  std::mt19937 random(5);
  std::vector<Request> requests;
  for (i64 id = 0; id < count; ++id) {
    Ids prompt{0};
    const auto length = 1 + static_cast<i64>(random() % static_cast<unsigned>(longest));
    while (static_cast<i64>(prompt.size()) < length) prompt.push_back(static_cast<TokenId>(3 + random() % 4000));
    Request request{.id = id, .prompt = prompt, .max_new_tokens = new_tokens};
    request.sampling.temperature = id % 2 == 0 ? 0.0f : 0.8f;
    request.sampling.seed = id;
    requests.push_back(request);
  }
  return requests;
}

std::map<i64, Ids> each_alone(Model& model, const std::vector<Request>& requests) {
  std::map<i64, Ids> tokens;
  for (const Request& request : requests) {
    SchedulerOptions options = model.options();
    options.prefix_reuse = false;
    Engine engine(model.runner, options);
    tokens.merge(run(engine, {request}));
  }
  return tokens;
}

TEST(EngineModel, ManyRequestsGetWhatEachGetsAlone) {
  Model model(256);
  auto requests = ragged_requests(10, 60, 8);
  for (std::size_t i = 0; i < requests.size(); i += 3) requests[i].sampling.repetition_penalty = 1e5f;
  Engine engine(model.runner, model.options());
  EXPECT_EQ(run(engine, requests), each_alone(model, requests));
}

TEST(EngineModel, StepsTogetherGiveTheSame) {
  Model model(256);
  auto requests = ragged_requests(10, 60, 30);
  Engine one(model.runner, model.options());
  const auto expected = run(one, requests);
  requests[3].stop_ids = {expected.at(3)[11]};
  requests[4].sampling.repetition_penalty = 1.1f;  // its tokens must be seen one by one
  Engine again(model.runner, model.options()), many(model.runner, model.options(512, 8));
  EXPECT_EQ(run(many, requests), run(again, requests));
}

// Logits of tokens that attend to all rows before them: together they read every row of the cache.
std::vector<std::vector<float>> readings(Model& model) {
  std::vector<std::vector<float>> rows;
  for (i64 position = 255; position < model.runner.limits().blocks * kBlockSize; position += 256)
    rows.push_back(model.runner.forward(single_sequence_plan(Ids{7}, position, kBlockSize, true), false).logits);
  return rows;
}

// Steps that are recorded and replayed draw the same tokens, and leave the same bits in the cache, as steps that are
// called.
TEST(EngineModel, RecordedStepsGiveTheSameBits) {
  std::vector<ComputeOptions> modes{{}, {.gemm = GemmMode::fp8}};
  if (std::getenv("FATHOM_TEST_SANITIZED") == nullptr)
    modes.insert(modes.end(), {{.compute = DType::f32}, {.fused = false}});
  for (const ComputeOptions& compute : modes) {
    Model recorded(64, compute, true, on_cpu() ? std::make_unique<RecordingCpu>() : test_device());
    Model called(64, compute, false);
    auto requests = ragged_requests(5, 60, 25);
    for (Request& request : requests) request.sampling.temperature = 1;
    std::map<i64, Ids> tokens[2];
    for (Model* model : {&recorded, &called}) {
      SchedulerOptions options = model->options(512, 8);
      options.prefix_reuse = false;
      Engine engine(model->runner, options);
      tokens[model == &called] = run(engine, requests);
    }
    EXPECT_EQ(tokens[0], tokens[1]);
    const auto got = readings(recorded), expected = readings(called);
    ASSERT_EQ(got.size(), 4u);
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(std::memcmp(got[i].data(), expected[i].data(), got[i].size() * sizeof(float)), 0) << i;
    EXPECT_GT(recorded.runner.graphs().recordings(), 0);
    EXPECT_EQ(called.runner.graphs().recordings(), 0);
  }
}

TEST(EngineModel, PreemptedRequestsGetTheSame) {
  Model model(6);
  const auto requests = ragged_requests(5, 40, 40);
  Engine engine(model.runner, model.options());
  EXPECT_EQ(run(engine, requests), each_alone(model, requests));
  EXPECT_GT(engine.scheduler().preemptions(), 0);
}

TEST(EngineModel, AnyChunkGivesTheSame) {
  Model model(128);
  const auto requests = ragged_requests(2, 150, 6);
  const auto expected = each_alone(model, requests);
  for (const i64 chunk : {1, 7, 64}) {
    Engine engine(model.runner, model.options(chunk));
    EXPECT_EQ(run(engine, requests), expected) << "chunk " << chunk;
  }
}

TEST(EngineModel, ChunksGiveTheSameLogits) {
  Model model(16);
  Ids ids{0};
  std::mt19937 random(3);
  while (ids.size() < 100) ids.push_back(static_cast<TokenId>(3 + random() % 4000));
  const auto whole = model.runner.forward(single_sequence_plan(ids, 0, kBlockSize, true), true);
  EXPECT_EQ(whole.logits.size(), static_cast<std::size_t>(model.args.vocab_size));
  ASSERT_EQ(whole.hidden.size(), static_cast<std::size_t>(model.args.n_layers));
  EXPECT_EQ(whole.hidden[0].size(), ids.size() * static_cast<std::size_t>(model.args.dim));
  for (const std::size_t chunk : {1u, 7u, 64u}) {
    std::vector<float> logits;
    for (std::size_t start = 0; start < ids.size(); start += chunk) {
      const auto part = std::span(ids).subspan(start, std::min(chunk, ids.size() - start));
      const bool last = start + part.size() == ids.size();
      logits =
          model.runner.forward(single_sequence_plan(part, static_cast<i64>(start), kBlockSize, last), false).logits;
    }
    EXPECT_LT(test::relative_error(logits, whole.logits), 1e-5) << "chunk " << chunk;
  }
}

TEST(EngineModel, ReusedBeginningsGiveTheSame) {
  Model model(256);
  auto requests = ragged_requests(1, 1, 10);
  std::mt19937 random(9);
  while (requests[0].prompt.size() < 100) requests[0].prompt.push_back(static_cast<TokenId>(3 + random() % 4000));
  Engine engine(model.runner, model.options());
  const Ids first = run(engine, requests).at(0);
  Request second = requests[0];
  second.prompt.insert(second.prompt.end(), first.begin(), first.end());
  second.prompt.insert(second.prompt.end(), {50, 60});
  engine.submit(second);
  Ids tokens;
  Usage usage;
  while (!engine.idle())
    for (const Event& event : engine.step()) {
      tokens.push_back(event.token);
      usage = event.usage;
    }
  EXPECT_EQ(usage.cached_tokens, 96);
  EXPECT_EQ(tokens, each_alone(model, {second}).at(0));
}

TEST(EngineModel, AttentionFormsAgree) {
  Model absorb(16), naive(16, {.compute = DType::f32, .attn = AttnImpl::naive});
  const Ids ids{0, 4079, 320, 598, 264, 356, 297, 3371, 33, 4080};
  const auto plan = single_sequence_plan(ids, 0, kBlockSize, true);
  EXPECT_LT(test::relative_error(naive.runner.forward(plan, false).logits, absorb.runner.forward(plan, false).logits),
            2e-5);
}

// Keys and values of all sequences are expanded at once: scratch is measured for several of full length.
TEST(EngineModel, NaiveAttentionOfSeveralLongSequences) {
  Model model({.limits = {.max_sequences = 4, .max_seq_len = 256},
               .compute = {.compute = DType::f32, .attn = AttnImpl::naive}});
  auto requests = ragged_requests(4, 60, 3);
  for (Request& request : requests)
    while (request.prompt.size() < 240) request.prompt.push_back(static_cast<TokenId>(5 + request.prompt.size()));
  Engine engine(model.runner, model.options());
  EXPECT_EQ(run(engine, requests), each_alone(model, requests));
}

// Tables too large for one upload: each sequence's blocks are sent by themselves.
TEST(EngineModel, LargeBlockTablesGiveTheSame) {
  Model model(256),
      large({.limits = {.max_sequences = 24, .max_seq_len = 12000, .blocks = 256}, .compute = {.compute = DType::f32}});
  const auto requests = ragged_requests(24, 60, 3);
  Engine engine(large.runner, large.options());
  EXPECT_EQ(run(engine, requests), each_alone(model, requests));
}

TEST(EngineModel, KnowsTheCapitalOfCroatia) {
  Model model(16);
  Engine engine(model.runner, model.options());
  const Request request{.id = 0,
                        .prompt = {0, 4079, 320, 598, 264, 356, 297, 3371, 33, 4080},
                        .sampling = {.temperature = 0},
                        .max_new_tokens = 20,
                        .stop_ids = {1}};
  EXPECT_EQ(run(engine, {request}).at(0), (Ids{60, 664, 277, 68, 16, 1}));  // "Zagreb."
}

TEST(EngineModel, LogprobsAreThoseOfTheLogits) {
  Model model(16);
  Engine engine(model.runner, model.options());
  const Ids prompt{0, 4079, 320, 598};
  engine.submit({.id = 0, .prompt = prompt, .sampling = {.temperature = 0}, .max_new_tokens = 1, .n_logprobs = 4096});
  const auto events = engine.step();
  ASSERT_EQ(events.size(), 1u);
  ASSERT_EQ(events[0].top_logprobs.size(), 4096u);
  EXPECT_EQ(events[0].top_logprobs[0].token, events[0].token);
  EXPECT_EQ(events[0].top_logprobs[0].logprob, events[0].logprob);
  double sum = 0;
  for (const TokenLogprob& one : events[0].top_logprobs) sum += std::exp(one.logprob);
  EXPECT_NEAR(sum, 1, 1e-5);
}

TEST(EngineModel, LogprobsAreThoseOfTheRow) {
  Model model(64);
  auto requests = ragged_requests(4, 30, 3);
  for (Request& request : requests) request.n_logprobs = 2;
  const auto numbers = [&](Engine& engine, std::span<const Request> all) {
    for (const Request& request : all) engine.submit(request);
    std::map<i64, std::vector<float>> each;
    while (!engine.idle())
      for (const Event& event : engine.step()) {
        EXPECT_EQ(event.top_logprobs.size(), 2u);
        each[event.request].push_back(event.logprob);
        for (const TokenLogprob& one : event.top_logprobs) each[event.request].push_back(one.logprob);
      }
    return each;
  };
  Engine engine(model.runner, model.options());
  const auto together = numbers(engine, requests);
  for (const Request& request : requests) {
    Engine alone(model.runner, model.options());
    EXPECT_LT(test::relative_error(together.at(request.id), numbers(alone, {&request, 1}).at(request.id)), 1e-5);
  }
}

TEST(EngineModel, RepetitionPenaltyForbidsWhatWasSeen) {
  Model model(32);
  Engine engine(model.runner, model.options());
  Request request{.id = 0, .prompt = {0, 4079, 320}, .max_new_tokens = 25};
  request.sampling = {.temperature = 0, .repetition_penalty = 1e5f};
  Ids tokens = run(engine, {request}).at(0);
  tokens.insert(tokens.end(), request.prompt.begin(), request.prompt.end());
  EXPECT_EQ(std::set<TokenId>(tokens.begin(), tokens.end()).size(), tokens.size());
}

TEST(EngineModel, TooLargePlansAreRefused) {
  Model model(8);
  EXPECT_THROW(model.runner.forward(single_sequence_plan(Ids(513, 5), 0, kBlockSize, true), false), Error);
  EXPECT_THROW(model.runner.forward(single_sequence_plan(Ids{5}, 128, kBlockSize, true), false), Error);
  EXPECT_THROW(model.runner.forward(single_sequence_plan(Ids{4096}, 0, kBlockSize, true), false), Error);
  EXPECT_THROW(model.runner.forward(single_sequence_plan(Ids{}, 0, kBlockSize, true), false), Error);
  StepPlan rows = single_sequence_plan(Ids(12, 5), 0, kBlockSize, false);
  for (int i = 0; i < 8; ++i) rows.add_row({});
  EXPECT_EQ(model.runner.run(rows).rows.size(), 8u);
  rows.add_row({});
  EXPECT_THROW(model.runner.run(rows), Error);
}

// A plan of several passes is measured by its last one.
TEST(EngineModel, PlansOfSeveralPassesKeepTheLimits) {
  Model model({.limits = {.max_seq_len = 32, .max_steps = 4}, .compute = {.compute = DType::f32}});
  const auto steps = [&](i64 position, i64 count) {
    StepPlan plan = single_sequence_plan(Ids{5}, position, kBlockSize, true);
    plan.steps = count;
    return model.runner.run(plan).rows.size();
  };
  EXPECT_EQ(steps(28, 4), 4u);
  EXPECT_EQ(steps(31, 1), 1u);
  EXPECT_THROW(steps(29, 4), Error);
  EXPECT_THROW(steps(31, 2), Error);
  EXPECT_THROW(steps(0, 5), Error);
  EXPECT_THROW(steps(0, 0), Error);
  Model longer(128);
  for (const auto& [position, context] : {std::pair<i64, i64>{1016, 1024}, {1017, 2048}}) {
    StepPlan plan = single_sequence_plan(Ids{5}, position, kBlockSize, true);
    plan.steps = 8;
    EXPECT_EQ(longer.runner.prepare(plan).batch.runs.front().max_context, context);
  }
  StepPlan reported = single_sequence_plan(Ids{5}, 8, kBlockSize, true);
  reported.n_logprobs = {0};
  EXPECT_NO_THROW(model.runner.run(reported));
  reported.steps = 2;
  EXPECT_THROW(model.runner.run(reported), Error);
  Model naive({.limits = {.max_seq_len = 32}, .compute = {.compute = DType::f32, .attn = AttnImpl::naive}});
  StepPlan two = single_sequence_plan(Ids{5}, 8, kBlockSize, true);
  two.steps = 2;
  EXPECT_THROW(naive.runner.run(two), Error);
}

TEST(EngineModel, PlansAheadWhereTheDeviceDoes) {
  const auto steps = [](std::unique_ptr<Backend> device, AttnImpl attn, bool record) {
    const Model model({.limits = {.max_seq_len = 64, .max_steps = 6},
                       .record = record,
                       .compute = {.compute = DType::f32, .attn = attn}},
                      std::move(device));
    return model.runner.limits().max_steps;
  };
  EXPECT_EQ(steps(std::make_unique<AheadCpu>(), AttnImpl::absorb, true), 6);
  EXPECT_EQ(steps(std::make_unique<AheadCpu>(), AttnImpl::absorb, false), 1);
  EXPECT_EQ(steps(std::make_unique<AheadCpu>(), AttnImpl::naive, true), 1);
  EXPECT_EQ(steps(std::make_unique<CpuBackend>(2), AttnImpl::absorb, true), 1);
}

// By a pass that is read at once, and by passes whose tokens are read together.
TEST(EngineModel, NotFiniteLogitsEndOneRequestOnly) {
  for (const i64 max_steps : {1, 8}) {
    constexpr TokenId kPoison = 77;
    Model model({.limits = {.max_seq_len = 2048, .blocks = 64}, .compute = {.compute = DType::f32}}, test_device(),
                std::make_unique<PoisonedCheckpoint>(kPoison));
    auto requests = ragged_requests(3, 30, 9);
    for (Request& request : requests) request.sampling = {.temperature = 0};
    const auto expected = each_alone(model, {requests[0], requests[2]});
    requests[1].prompt = {0, 5, kPoison};
    StepPlan decode = single_sequence_plan(Ids{kPoison}, 0, kBlockSize, true);
    EXPECT_FALSE(model.runner.run(decode).rows.at(0).finite);
    Engine engine(model.runner, model.options(512, max_steps));
    for (const Request& request : requests) engine.submit(request);
    std::map<i64, Ids> tokens;
    std::string error;
    while (!engine.idle())
      for (const Event& event : engine.step()) {
        if (event.request == 1) error = event.error;
        if (event.token >= 0) tokens[event.request].push_back(event.token);
      }
    EXPECT_EQ(tokens, expected);
    EXPECT_EQ(error, "the model gave logits that are not finite at position 2");
  }
}

// A device with its own memory: what fits is taken, too little is told before anything is loaded.
TEST(EngineModel, CacheTakesWhatTheDeviceHas) {
  const RunnerOptions options{.limits = {.max_tokens = 64, .max_rows = 8, .max_seq_len = 2048}, .compute = {}};
  const MemoryNeed need = measure_memory(Model::with_bias(load_model_args_of(tiny())), options);
  EXPECT_EQ(need.block, 6 * 16 * 576 * 2);
  const auto blocks = [&](i64 free) { return Model(options, std::make_unique<SmallCpu>(free)).runner.limits().blocks; };
  const i64 reserve = i64{1} << 28, wanted = 8 * 2048 / 16, longest = 2048 / 16;
  const i64 least = need.weights + need.scratch + reserve + longest * need.block;
  EXPECT_EQ(blocks(least + wanted * need.block), wanted);
  EXPECT_LT((least - reserve) / need.block, wanted);
  EXPECT_EQ(blocks(least), (least - reserve) / need.block);  // this device's memory is never less
  EXPECT_THROW(blocks(least - 1), Error);
  // The machine's memory is taken later, when it is touched: the cache gets what the weights will leave.
  const auto of_host = [&](i64 free, bool map) {
    RunnerOptions with = options;
    with.map = map;
    return Model(with, std::make_unique<SmallCpu>(free, true)).runner.limits().blocks;
  };
  EXPECT_EQ(of_host(least + 5 * need.block, false), longest + 5);
  EXPECT_THROW(of_host(least - 1, false), Error);
  EXPECT_EQ(of_host(least - need.weights, true), longest);  // weights stay in their files
}

// What a caller asks for beyond the table of rotations is told before anything is read.
TEST(EngineModel, PositionsAreChecked) {
  Model model({.limits = {.max_seq_len = 64}, .compute = {.compute = DType::f32}});
  StepPlan plan = single_sequence_plan(Ids{5}, 8, kBlockSize, true);
  plan.positions[0] = 9;
  EXPECT_THROW(model.runner.forward(plan, false), Error);
  plan.positions[0] = -1;
  EXPECT_THROW(model.runner.run(plan), Error);
  plan.positions[0] = 8;
  Runner::Pass pass = model.runner.prepare(plan);
  EXPECT_EQ(pass.batch.runs.front().max_context, 1024);
  model.runner.enqueue(pass);
  EXPECT_THROW(model.runner.enqueue(pass), Error);  // its plan has one step
  pass = model.runner.prepare(plan);
  pass.batch.runs.front().max_context = model.args.max_seq_len + 1;
  try {
    model.runner.enqueue(pass);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              fmt::format("a context of {} tokens, but the model was built with positions for {} (max_seq_len)",
                          model.args.max_seq_len + 1, model.args.max_seq_len));
  }
}

TEST(EngineModel, CacheAndScratchAreMeasured) {
  Model model(8, {});
  EXPECT_EQ(model.runner.cache_bytes(), 6 * 8 * kBlockSize * 576 * 2);  // 576 bf16 numbers a token and layer
  EXPECT_GT(model.runner.arena_bytes(), 0);
  EXPECT_LT(model.runner.arena_bytes(), i64{64} << 20);
}

}  // namespace
}  // namespace fathom
