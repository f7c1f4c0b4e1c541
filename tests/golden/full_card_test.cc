// A card that is full: the cache gets all that weights and scratch leave, and sequences that decode, that have a few
// new tokens and that read long prompts fill it to the last block. Nothing may take memory that was not planned.
// FATHOM_TEST_DEVICE chooses the device (default cpu). FATHOM_FULL_CARD_CONFIG: a configuration for random weights
// instead of the embedded model, on a device that can fill them in; FATHOM_FULL_CARD_TOKENS: what the cache is to hold.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "backends/cpu/cpu_backend.h"
#include "backends/create.h"
#include "checkpoint/checkpoint.h"
#include "comm/communicator.h"
#include "engine/engine.h"
#include "engine/memory.h"
#include "engine/runner.h"

namespace fathom {
namespace {

const char* setting(const char* name) { return std::getenv(name); }

bool on_cpu() { return setting("FATHOM_TEST_DEVICE") == nullptr; }

// A CPU with memory of its own, like a card: what is taken is counted, and there is no more than its size.
class Card final : public CpuBackend {
 public:
  Card() : CpuBackend(2) {}
  std::optional<DeviceMemory> memory() const override { return DeviceMemory{"a card", kSize - *taken_, kSize}; }
  Storage allocate(std::size_t bytes) override {
    CHECK(static_cast<i64>(bytes) <= kSize - *taken_, "the card is full: {} bytes more", bytes);
    *taken_ += static_cast<i64>(bytes);
    auto memory = std::make_shared<Storage>(CpuBackend::allocate(bytes));
    return {memory->data(), bytes, device(),
            [memory, bytes, taken = taken_](void*) { *taken -= static_cast<i64>(bytes); }};
  }

 private:
  static constexpr i64 kSize = i64{4} << 30;
  std::shared_ptr<i64> taken_ = std::make_shared<i64>(0);
};

struct Room {
  ModelArgs args;
  std::unique_ptr<Checkpoint> checkpoint;  // null: random weights
  std::unique_ptr<Backend> device;
  RunnerOptions options;
  i64 cache_tokens = 0;

  Room() {
    const auto tiny = std::filesystem::path(setting("FATHOM_SOURCE_DIR")) / "models/tiny";
    device = on_cpu() ? std::make_unique<Card>() : create_backend(setting("FATHOM_TEST_DEVICE"), 0);
    if (const char* config = setting("FATHOM_FULL_CARD_CONFIG")) {
      args = load_model_args(config);
      args.max_seq_len = 131072;
      cache_tokens = 1'000'000;
    } else {
      args = load_model_args_of(tiny);
      args.gate_bias = true;
      args.max_seq_len = 2048;
      checkpoint = open_checkpoint(tiny);
      cache_tokens = on_cpu() ? 6000 : 40000;
    }
    if (const char* tokens = setting("FATHOM_FULL_CARD_TOKENS")) cache_tokens = std::atoll(tokens);
    options.limits = {.max_tokens = device->prompt_chunk(), .max_sequences = 64};
    options.limits.max_rows = options.limits.max_sequences;
    options.limits.max_seq_len = args.max_seq_len;
  }
  WeightStore store() const {
    return checkpoint != nullptr ? WeightStore(*checkpoint, *device, 0, 1, false) : WeightStore(*device, 0, 1);
  }
  // Takes what is more than the model with its cache needs.
  Storage ballast() const {
    const DeviceMemory there = device->memory().value();
    const MemoryNeed need = measure_memory(args, options, store());
    const i64 reserve = (i64{1} << 28) + there.total / 100,
              wanted = need.weights + need.scratch + reserve + options.limits.blocks_of(cache_tokens) * need.block;
    CHECK(wanted <= there.free, "{} bytes are wanted, {} are free", wanted, there.free);
    return device->allocate(static_cast<std::size_t>(there.free - wanted));
  }
};

// Together they want more than the cache holds. Every fourth is short, so that many decode beside the long ones.
std::vector<Request> mixed_requests(const Room& room) {
  std::mt19937 random(5);
  std::vector<Request> requests;
  const i64 count = room.options.limits.max_sequences, mean = room.cache_tokens * 5 / (3 * count);
  // None ends before all prompts are read: else the first would make room for the last.
  const i64 answer = 4 * room.cache_tokens / room.options.limits.max_tokens;
  for (i64 id = 0; id < count; ++id) {
    const i64 draw = 1 + static_cast<i64>(random() % 63),
              length = id % 4 == 3 ? draw : std::min(mean / 2 + mean * draw / 63, room.args.max_seq_len - 64);
    Request request{.id = id, .prompt = {0}, .sampling = {.temperature = 0}, .max_new_tokens = answer + 16 + draw / 2};
    while (static_cast<i64>(request.prompt.size()) < length)
      request.prompt.push_back(
          static_cast<TokenId>(3 + random() % static_cast<std::uint32_t>(room.args.vocab_size - 100)));
    requests.push_back(request);
  }
  return requests;
}

TEST(FullCard, MixedLongContexts) {
  const Room room;
  const Storage ballast = room.ballast();
  SingleCommunicator alone;
  Runner runner(*room.device, alone, room.store(), room.args, room.options);
  EXPECT_LE(runner.limits().blocks, room.options.limits.blocks_of(room.cache_tokens) + 4096);
  Engine engine(runner, {.limits = runner.limits(), .vocab_size = room.args.vocab_size});
  const std::vector<Request> requests = mixed_requests(room);
  const i64 free = room.device->memory()->free;
  i64 least = runner.limits().blocks, finished = 0;
  for (std::size_t sent = 0; sent < requests.size() || !engine.idle();) {
    for (int i = 0; i < 4 && sent < requests.size(); ++i) engine.submit(requests[sent++]);
    for (const Event& event : engine.step()) {
      ASSERT_NE(event.finish, FinishReason::error) << "request " << event.request << ": " << event.error;
      finished += event.finish != FinishReason::none;
    }
    least = std::min(least, engine.scheduler().pool().available());
  }
  EXPECT_EQ(finished, static_cast<i64>(requests.size()));
  EXPECT_LE(least, 1);  // a sequence that needs two more gets none of them
  EXPECT_GT(engine.scheduler().preemptions(), 0);
  // Recorded passes take about a mebibyte each, of the reserve; scratch takes nothing.
  const i64 taken = free - room.device->memory()->free;
  EXPECT_LE(taken, (2 + 2 * runner.graphs().recordings()) << 20);
  std::printf("full card: %lld blocks of cache, %lld preemptions, %.1f MiB taken by %lld recordings\n",
              static_cast<long long>(runner.limits().blocks), static_cast<long long>(engine.scheduler().preemptions()),
              static_cast<double>(taken) / (1 << 20), static_cast<long long>(runner.graphs().recordings()));
}

}  // namespace
}  // namespace fathom
