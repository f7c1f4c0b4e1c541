#include "tools/bench_engine.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "engine/engine.h"
#include "engine/runner.h"

namespace fathom {
namespace {

constexpr i64 kChunk = 4096, kWarmUp = 24;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Seconds until every request has its first token, and from then to the end.
struct Times {
  double first = 0, rest = 0;
};

Times answer(Runner& runner, const EngineCase& one, std::uint32_t seed) {
  Engine engine(runner, {.limits = runner.limits(), .vocab_size = runner.args().vocab_size, .prefix_reuse = false});
  for (i64 id = 0; id < one.batch; ++id) {
    Request request{.id = id, .sampling = {.temperature = 0}, .max_new_tokens = one.steps + 1};
    for (i64 i = 0; i < one.context; ++i) {
      seed = seed * 1664525 + 1013904223;
      request.prompt.push_back(static_cast<TokenId>(seed / 256 % static_cast<std::uint32_t>(runner.args().vocab_size)));
    }
    engine.submit(std::move(request));
  }
  const double start = now();
  double first = start;
  i64 begun = 0;
  while (!engine.idle())
    for (const Event& event : engine.step()) {
      CHECK(event.finish != FinishReason::error, "{}", event.error);
      if (event.usage.completion_tokens == 1 && ++begun == one.batch) first = now();
    }
  return {first - start, now() - first};
}

}  // namespace

void bench_engine(Backend& backend, const ModelArgs& args, const ComputeOptions& compute,
                  std::span<const EngineCase> cases) {
  RunnerOptions options{.limits = {.max_tokens = 1, .max_sequences = 1}, .compute = compute};
  Limits& room = options.limits;
  for (const EngineCase& one : cases) {
    room.max_sequences = std::max(room.max_sequences, one.batch);
    room.max_seq_len = std::max(room.max_seq_len, one.context + one.steps + 1);
    room.max_tokens = std::max({room.max_tokens, std::min(kChunk, one.context * one.batch), one.batch});
    room.blocks = std::max(room.blocks, one.batch * room.blocks_of(one.context + one.steps + 1));
    options.record = options.record && one.record;
  }
  SingleCommunicator comm;
  Runner runner(backend, comm, WeightStore(backend, 0, 1), args, options);
  for (const EngineCase& one : cases) {
    answer(runner, {.batch = one.batch, .context = std::min<i64>(one.context, 16), .steps = kWarmUp}, 1);
    const Times times = answer(runner, one, 2);
    std::printf("engine   batch %4lld ctx %6lld  %8.3f ms/step %10.1f tok/s  first token of all after %.3f s\n",
                static_cast<long long>(one.batch), static_cast<long long>(one.context),
                times.rest / static_cast<double>(one.steps) * 1e3,
                static_cast<double>(one.batch * one.steps) / times.rest, times.first);
    std::fflush(stdout);
  }
}

}  // namespace fathom
