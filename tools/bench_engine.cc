#include "tools/bench_engine.h"

#include <algorithm>
#include <chrono>

#include "engine/engine.h"
#include "engine/runner.h"
#include "tools/output.h"

namespace fathom {
namespace {

constexpr i64 kChunk = 4096, kWarmUp = 24;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Tokens that a request may draw while the prompts of others are still read.
i64 spare_tokens(const EngineCase& one) {
  const i64 room = std::max<i64>(1, kChunk - one.batch);  // prompt tokens of a pass beside all who decode
  return one.batch + (one.batch * one.context + room - 1) / room;
}

i64 length_of(const EngineCase& one) { return one.context + one.steps + 1 + spare_tokens(one); }

struct Times {
  double first = 0;  // seconds until every request had its first token
  std::vector<EngineStep> steps;
};

Times answer(Runner& runner, const EngineCase& one, std::uint32_t seed) {
  Engine engine(runner, {.limits = runner.limits(), .vocab_size = runner.args().vocab_size, .prefix_reuse = false});
  for (i64 id = 0; id < one.batch; ++id) {
    Request request{.id = id, .sampling = {.temperature = 0}, .max_new_tokens = length_of(one) - one.context};
    for (i64 i = 0; i < one.context; ++i) {
      seed = seed * 1664525 + 1013904223;
      request.prompt.push_back(static_cast<TokenId>(seed / 256 % static_cast<std::uint32_t>(runner.args().vocab_size)));
    }
    engine.submit(std::move(request));
  }
  const double start = now();
  Times times;
  i64 begun = 0, ended = 0;
  while (ended == 0) {
    EngineStep step{.all = begun == one.batch};
    const double before = now();
    for (const Event& event : engine.step()) {
      CHECK(event.finish != FinishReason::error, "{}", event.error);
      if (event.usage.completion_tokens == 1 && ++begun == one.batch) times.first = now() - start;
      step.tokens += event.token >= 0 ? 1 : 0;
      ended += event.finish != FinishReason::none ? 1 : 0;
    }
    step.seconds = now() - before;
    times.steps.push_back(step);
  }
  return times;
}

}  // namespace

DecodeSpeed decode_speed(std::span<const EngineStep> steps, i64 batch) {
  double seconds = 0;
  i64 tokens = 0;
  for (const EngineStep& step : steps)
    if (step.all) seconds += step.seconds, tokens += step.tokens;
  if (tokens == 0) return {};
  return {seconds * static_cast<double>(batch) / static_cast<double>(tokens), static_cast<double>(tokens) / seconds};
}

void bench_engine(Backend& backend, ModelArgs args, const ComputeOptions& compute, std::span<const EngineCase> cases) {
  RunnerOptions options{.limits = {.max_tokens = 1, .max_sequences = 1}, .compute = compute};
  Limits& room = options.limits;
  for (const EngineCase& one : cases) {
    room.max_sequences = std::max(room.max_sequences, one.batch);
    room.max_seq_len = std::max(room.max_seq_len, length_of(one));
    room.max_tokens = std::max({room.max_tokens, std::min(kChunk, one.context * one.batch), one.batch});
    room.blocks = std::max(room.blocks, one.batch * room.blocks_of(length_of(one)));
    options.record = options.record && one.record;
  }
  args.max_seq_len = std::max(args.max_seq_len, room.max_seq_len);  // tables of rotations, for as long as is asked
  SingleCommunicator comm;
  Runner runner(backend, comm, WeightStore(backend, 0, 1), args, options);
  for (const EngineCase& one : cases) {
    answer(runner, {.batch = one.batch, .context = std::min<i64>(one.context, 16), .steps = kWarmUp}, 1);
    const Times times = answer(runner, one, 2);
    const DecodeSpeed speed = decode_speed(times.steps, one.batch);
    print_output("engine   batch {:4} ctx {:6}  {:8.3f} ms/step {:10.1f} tok/s  first token of all after {:.3f} s\n",
                 one.batch, one.context, speed.seconds_per_step * 1e3, speed.tokens_per_second, times.first);
  }
}

}  // namespace fathom
