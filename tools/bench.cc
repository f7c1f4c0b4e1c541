// fathom bench: speed of decode and prefill for any configuration, on random weights made on the device.
#include <CLI/CLI.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>

#include "backends/create.h"
#include "engine/runner.h"
#include "model/source.h"
#include "model/verdict.h"
#include "tools/bench_bytes.h"
#include "tools/bench_engine.h"
#include "tools/commands.h"
#include "tools/explain_kernels.h"

namespace fathom {
namespace {

struct Flags {
  std::string config, load, device = "auto", dtype, gemm = "bf16", attn = "absorb";
  std::vector<i64> batches{1}, contexts{128}, prefills;
  i64 steps = 64, layers = 0, threads = 0;
  double bandwidth = 4.3e12;  // bytes a second that the floor is counted with
  bool plain = false, no_graphs = false, mmap = false, no_decode = false, engine = false, explain_kernels = false;
};

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

ModelArgs bench_args(const Flags& flags) {
  ModelArgs args = load_config(flags.config);
  if (!flags.dtype.empty()) args.dtype = flags.dtype;
  if (flags.layers > 0) args.n_layers = flags.layers;
  return args;
}

// Decode steps that a case may take beside those that are timed.
constexpr i64 kSpareSteps = 16;

// What all cases together need.
Limits bench_limits(const Flags& flags) {
  Limits limits{.max_tokens = 1, .max_sequences = 1, .max_steps = flags.steps + kSpareSteps, .block_size = 64};
  const auto hold = [&](i64 sequences, i64 fresh, i64 length) {
    limits.max_tokens = std::max(limits.max_tokens, sequences * fresh);
    limits.max_sequences = std::max(limits.max_sequences, sequences);
    limits.max_seq_len = std::max(limits.max_seq_len, length);
    limits.blocks = std::max(limits.blocks, sequences * limits.blocks_of(length));
  };
  if (!flags.no_decode)
    for (const i64 b : flags.batches)
      for (const i64 c : flags.contexts) hold(b, 1, c + limits.max_steps);
  for (const i64 t : flags.prefills) hold(1, t, t);
  return limits;
}

// A pass of `sequences` sequences with `context` tokens before it and `fresh` in it, and `steps - 1` passes after it.
StepPlan bench_plan(const Limits& limits, i64 sequences, i64 context, i64 fresh, i64 steps) {
  StepPlan plan;
  plan.steps = steps;
  std::vector<TokenId> ids(static_cast<std::size_t>(fresh));
  std::vector<std::int32_t> table(static_cast<std::size_t>(limits.blocks_of(context + fresh + steps - 1)));
  std::iota(table.begin(), table.end(), 0);
  for (i64 s = 0; s < sequences; ++s) {
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<TokenId>(100 + (s * fresh + static_cast<i64>(i)) * 37 % 1000);
    plan.add_sequence(ids, context, table, limits.block_size);
    plan.add_row({{.temperature = 0}});
    for (std::int32_t& block : table) block += static_cast<std::int32_t>(table.size());
  }
  return plan;
}

// Seconds of one of many tiny operations, recorded one after another: what a kernel costs besides its work.
double kernel_gap(Backend& backend) {
  constexpr int kChain = 512;
  const Storage storage = backend.allocate(1024);
  const Tensor x(storage.data(), DType::f32, {1, 4}, backend.device());
  const Tensor y(static_cast<std::byte*>(storage.data()) + 512, DType::f32, {1, 4}, backend.device());
  const auto chain = [&] {
    for (int i = 0; i < kChain; ++i) backend.run(op::Copy{i % 2 == 0 ? y : x, i % 2 == 0 ? x : y});
  };
  chain();
  const auto graph = backend.capture(chain);
  if (graph == nullptr) return 0;
  double best = 1e30;
  for (int i = 0; i < 3; ++i) {
    backend.synchronize();
    const auto start = Clock::now();
    graph->replay();
    backend.synchronize();
    best = std::min(best, seconds_since(start) / kChain);
  }
  return best;
}

void bench_decode(const Flags& flags, Backend& backend, Runner& runner, i64 batch, i64 context, double gap) {
  // By expanded heads, the host gives each step its inputs: then the first one is taken again and again.
  const i64 steps = flags.attn == "naive" ? 1 : flags.steps + kSpareSteps;
  const Runner::Pass pass = runner.prepare(bench_plan(runner.limits(), batch, context, 1, steps));
  for (int i = 0; i < 4; ++i) runner.enqueue(pass);
  backend.synchronize();
  const auto start = Clock::now();
  for (i64 i = 0; i < flags.steps; ++i) runner.enqueue(pass);
  backend.synchronize();
  const double seconds = seconds_since(start) / static_cast<double>(flags.steps);
  const double floor = decode_bytes(runner.args(), batch, context) / flags.bandwidth;
  const i64 operations = runner.graphs().operations(batch, pass.batch.runs.front().max_context);
  std::printf(
      "decode   batch %4lld ctx %6lld  %8.3f ms/step %10.1f tok/s  floor %7.3f ms  share %5.1f %%  kernels/layer "
      "%.1f  gaps up to %.3f ms\n",
      static_cast<long long>(batch), static_cast<long long>(context), seconds * 1e3,
      static_cast<double>(batch) / seconds, floor * 1e3, 100 * floor / seconds,
      static_cast<double>(operations) / static_cast<double>(runner.args().n_layers),
      static_cast<double>(operations) * gap * 1e3);
  std::fflush(stdout);
}

void bench_prefill(Backend& backend, Runner& runner, i64 tokens) {
  const Runner::Pass pass = runner.prepare(bench_plan(runner.limits(), 1, 0, tokens, 1));
  double best = 1e30;
  for (int i = 0; i < 3; ++i) {
    const auto start = Clock::now();
    runner.enqueue(pass);
    backend.synchronize();
    best = std::min(best, seconds_since(start));
  }
  std::printf("prefill  tokens %6lld          %8.3f ms      %10.1f tok/s\n", static_cast<long long>(tokens), best * 1e3,
              static_cast<double>(tokens) / best);
  std::fflush(stdout);
}

// How long a checkpoint's weights take to their places on the device.
void bench_load(const Flags& flags) {
  const auto backend = create_backend(flags.device, static_cast<int>(flags.threads));
  const auto start = Clock::now();
  const ModelSource source = open_model(flags.load, flags.config, 0, 1);
  require_sound(judge(source.args, *source.checkpoint, false), flags.load, false);
  i64 bytes = 0;
  WeightStore store(*source.checkpoint, *backend, 0, 1, flags.mmap, [&](i64 read) { bytes = read; });
  const ComputeOptions options;
  const Transformer model(Params(store, source.args, options));
  backend->synchronize();
  const double seconds = seconds_since(start);
  std::printf("loaded %lld bytes in %.3f s, %.3f GB/s\n", static_cast<long long>(bytes), seconds,
              static_cast<double>(bytes) / seconds / 1e9);
}

void run(const Flags& flags) {
  if (!flags.load.empty()) return bench_load(flags);
  if (flags.config.empty()) throw UsageError("name a configuration with --config");
  ModelArgs args = bench_args(flags);
  std::string choice;
  const auto backend = create_backend(flags.device, static_cast<int>(flags.threads), &choice);
  ComputeOptions options;
  options.gemm = flags.gemm == "fp8" ? GemmMode::fp8 : GemmMode::bf16;
  options.attn = flags.attn == "naive" ? AttnImpl::naive : AttnImpl::absorb;
  options.fused = !flags.plain;
  std::printf("%s  %s %lld layers, %s weights, gemm %s, attn %s, device %s\n", flags.config.c_str(), args.dtype.c_str(),
              static_cast<long long>(args.n_layers), std::string(args.format().name()).c_str(), flags.gemm.c_str(),
              flags.attn.c_str(), choice.c_str());
  if (flags.explain_kernels) {
    std::vector<i64> tokens = flags.batches;
    tokens.insert(tokens.end(), flags.prefills.begin(), flags.prefills.end());
    return explain_kernels(*backend, args, options.gemm, tokens);
  }
  if (flags.engine) {
    std::vector<EngineCase> cases;
    for (const i64 b : flags.batches)
      for (const i64 c : flags.contexts) cases.push_back({b, c, flags.steps, !flags.no_graphs});
    return bench_engine(*backend, args, options, cases);
  }
  const Limits limits = bench_limits(flags);
  args.max_seq_len = std::max(args.max_seq_len, limits.max_seq_len);  // tables of rotations, for as long as is asked
  const auto start = Clock::now();
  SingleCommunicator comm;
  Runner runner(*backend, comm, WeightStore(*backend, 0, 1), args,
                {.limits = limits, .record = !flags.no_graphs, .compute = options});
  backend->synchronize();
  std::printf("weights and cache ready after %.1f s\n", seconds_since(start));
  const double gap = kernel_gap(*backend);
  if (gap > 0) std::printf("a recorded operation without work takes %.2f us\n", gap * 1e6);
  if (!flags.no_decode)
    for (const i64 b : flags.batches)
      for (const i64 c : flags.contexts) bench_decode(flags, *backend, runner, b, c, gap);
  for (const i64 t : flags.prefills) bench_prefill(*backend, runner, t);
}

}  // namespace

void add_bench(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("bench", "Measure decode and prefill on random weights");
  command->add_option("--config", flags->config, "Configuration file or model directory");
  command->add_option("--load", flags->load, "Time the loading of this model directory instead");
  command->add_option("--device", flags->device, "cpu, cuda[:N] or auto")->capture_default_str();
  command->add_option("--threads", flags->threads, "CPU threads; 0: one a core");
  command->add_option("--dtype", flags->dtype, "Weights: bf16 or fp8, instead of the configuration's")
      ->check(CLI::IsMember({"bf16", "fp8"}));
  command->add_option("--gemm", flags->gemm, "bf16 or fp8")->check(CLI::IsMember({"bf16", "fp8"}));
  command->add_option("--attn", flags->attn, "absorb or naive")->check(CLI::IsMember({"absorb", "naive"}));
  command->add_option("--layers", flags->layers, "Cut the model to this many layers");
  command->add_option("--batch", flags->batches, "Sequences of a decode step")->delimiter(',');
  command->add_option("--ctx", flags->contexts, "Tokens before the first decode step")->delimiter(',');
  command->add_option("--prefill", flags->prefills, "Tokens of a prompt")->delimiter(',');
  command->add_option("--steps", flags->steps, "Decode steps that are timed")->capture_default_str();
  command->add_option("--bandwidth", flags->bandwidth, "Bytes a second of the floor")->capture_default_str();
  command->add_flag("--no-decode", flags->no_decode, "Measure prompts only");
  command->add_flag("--engine", flags->engine, "Requests through the engine, as generate and chat run them");
  command->add_flag("--explain-kernels", flags->explain_kernels,
                    "Print the kernel of each product for these batches and prompts instead");
  command->add_flag("--plain", flags->plain, "Plain operations only");
  command->add_flag("--mmap", flags->mmap, "With --load on the CPU: use the weights where their files are mapped");
  command->add_flag("--no-graphs", flags->no_graphs, "Do not record passes");
  command->callback([flags] { run(*flags); });
}

}  // namespace fathom
