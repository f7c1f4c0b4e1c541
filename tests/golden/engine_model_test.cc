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

// The embedded model with room for `blocks` cache blocks.
struct Model {
  explicit Model(i64 blocks, ComputeOptions compute = {.compute = DType::f32}, bool record = true,
                 std::unique_ptr<Backend> device = test_device())
      : args(load_model_args_of(tiny())),
        checkpoint(open_checkpoint(tiny())),
        backend(std::move(device)),
        runner(*backend, comm, *checkpoint, with_bias(args),
               {.limits = {.max_seq_len = 2048, .blocks = blocks, .block_size = kBlockSize},
                .record = record,
                .compute = compute}) {}

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
  const auto requests = ragged_requests(10, 60, 8);
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
}

TEST(EngineModel, CacheAndScratchAreMeasured) {
  Model model(8, {});
  EXPECT_EQ(model.runner.cache_bytes(), 6 * 8 * kBlockSize * 576 * 2);  // 576 bf16 numbers a token and layer
  EXPECT_GT(model.runner.arena_bytes(), 0);
  EXPECT_LT(model.runner.arena_bytes(), i64{64} << 20);
}

}  // namespace
}  // namespace fathom
