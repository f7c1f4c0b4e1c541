// fathom bench: speed of decode and prefill for any configuration, on random weights made on the device.
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>

#include "backends/create.h"
#include "engine/runner.h"
#include "model/source.h"
#include "model/verdict.h"
#include "tools/bench_bytes.h"
#include "tools/bench_engine.h"
#include "tools/command.h"
#include "tools/commands.h"
#include "tools/explain_kernels.h"
#include "tools/model_flags.h"
#include "tools/output.h"

namespace fathom {
namespace {

struct Flags {
  std::string config, load, device = "auto", dtype, gemm = "bf16", attn = "absorb";
  std::vector<i64> batches{1}, contexts{128}, prefills;
  i64 steps = 64, layers = 0;
  int threads = 0;
  double bandwidth = 0;  // bytes a second that the floor is counted with; 0: not known
  bool plain = false, no_graphs = false, mmap = false, no_decode = false, engine = false, explain_kernels = false;
};

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

ModelArgs bench_args(const Flags& flags) {
  ModelArgs args = load_config(flags.config);
  print_warnings(args.warnings);
  if (!flags.dtype.empty()) args.dtype = flags.dtype;
  if (flags.layers > 0) cut_layers(args, flags.layers);
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
  std::string line = fmt::format("decode   batch {:4} ctx {:6}  {:8.3f} ms/step {:10.1f} tok/s", batch, context,
                                 seconds * 1e3, static_cast<double>(batch) / seconds);
  if (flags.bandwidth > 0) {
    const double floor = decode_bytes(runner.args(), batch, context) / flags.bandwidth;
    line += fmt::format("  floor {:7.3f} ms  share {:5.1f} %", floor * 1e3, 100 * floor / seconds);
  }
  if (const i64 operations = runner.graphs().operations(batch, pass.batch.runs.front().max_context); operations > 0)
    line += fmt::format("  kernels/layer {:.1f}  gaps up to {:.3f} ms",
                        static_cast<double>(operations) / static_cast<double>(runner.args().n_layers),
                        static_cast<double>(operations) * gap * 1e3);
  write_output(line + "\n");
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
  print_output("prefill  tokens {:6}          {:8.3f} ms      {:10.1f} tok/s\n", tokens, best * 1e3,
               static_cast<double>(tokens) / best);
}

// How long a checkpoint's weights take to their places on the device.
void bench_load(const Flags& flags) {
  const auto backend = create_backend(flags.device, flags.threads);
  const auto start = Clock::now();
  const ModelSource source = open_model(flags.load, flags.config, 0, 1);
  print_warnings(source.args.warnings);
  require_sound(judge(source.args, *source.checkpoint, false), flags.load, false);
  i64 bytes = 0;
  WeightStore store(*source.checkpoint, *backend, 0, 1, flags.mmap, [&](i64 read) { bytes = read; });
  const ComputeOptions options;
  const Transformer model(Params(store, source.args, options));
  backend->synchronize();
  const double seconds = seconds_since(start);
  print_output("loaded {} bytes in {:.3f} s, {:.3f} GB/s\n", bytes, seconds,
               static_cast<double>(bytes) / seconds / 1e9);
}

void run(const Flags& flags) {
  refuse_ranks();
  if (!flags.load.empty()) return bench_load(flags);
  if (flags.config.empty()) throw UsageError("name a configuration with --config");
  ModelArgs args = bench_args(flags);
  std::string choice;
  const auto backend = create_backend(flags.device, flags.threads, &choice);
  ComputeOptions options;
  options.gemm = flags.gemm == "fp8" ? GemmMode::fp8 : GemmMode::bf16;
  options.attn = flags.attn == "naive" ? AttnImpl::naive : AttnImpl::absorb;
  options.fused = !flags.plain;
  print_output("{}  {} {} layers, {} weights, gemm {}, attn {}, device {}\n", flags.config, args.dtype, args.n_layers,
               args.format().name(), flags.gemm, flags.attn, choice);
  if (flags.explain_kernels) {
    std::vector<i64> tokens = flags.batches;
    tokens.insert(tokens.end(), flags.prefills.begin(), flags.prefills.end());
    return explain_kernels(*backend, args, options.gemm, tokens);
  }
  if (flags.no_graphs && backend->device().type == DeviceType::cpu)
    print_warning("--no-graphs has no effect: the CPU records no steps");
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
  for (i64 i = 0; i < args.n_layers; ++i)
    backend->run(op::FillRandom{runner.cache().layer(i).latent, ~std::uint64_t{0} - static_cast<std::uint64_t>(i)});
  backend->synchronize();
  print_output("weights and cache ready after {:.1f} s\n", seconds_since(start));
  const double gap = kernel_gap(*backend);
  if (gap > 0) print_output("a recorded operation without work takes {:.2f} us\n", gap * 1e6);
  if (!flags.no_decode)
    for (const i64 b : flags.batches)
      for (const i64 c : flags.contexts) bench_decode(flags, *backend, runner, b, c, gap);
  for (const i64 t : flags.prefills) bench_prefill(*backend, runner, t);
}

}  // namespace

void add_bench(CLI::App& app) {
  const auto flags = std::make_shared<Flags>();
  Command command(app, "bench", "Measure decode and prefill on random weights");
  constexpr i64 kMost = i64{1} << 24;
  command.option("--config", flags->config, "Configuration file or model directory");
  Flag load = command.option("--load", flags->load, "Time the loading of this model directory instead");
  command.option("--device", flags->device, "cpu, cuda[:N] or auto").shows_default();
  command.option("--threads", flags->threads, "CPU threads; 0: one a core").range(0, 4096);
  const Flag dtype = command.option("--dtype", flags->dtype, "Weights: bf16 or fp8, instead of the configuration's")
                         .one_of({"bf16", "fp8"});
  const Flag gemm = command.option("--gemm", flags->gemm, "bf16 or fp8").one_of({"bf16", "fp8"});
  const Flag attn = command.option("--attn", flags->attn, "absorb or naive").one_of({"absorb", "naive"});
  const Flag layers = command.option("--layers", flags->layers, "Cut the model to this many layers").range(1, 1024);
  const Flag batch = command.option("--batch", flags->batches, "Sequences of a decode step").range(1, 1 << 16);
  const Flag context = command.option("--ctx", flags->contexts, "Tokens before the first decode step").range(1, kMost);
  const Flag prefill = command.option("--prefill", flags->prefills, "Tokens of a prompt").range(1, kMost);
  const Flag steps =
      command.option("--steps", flags->steps, "Decode steps that are timed").range(1, 1 << 20).shows_default();
  const Flag bandwidth =
      command
          .option("--bandwidth", flags->bandwidth,
                  "Bytes a second that the device's memory gives: a decode step is set beside what they allow")
          .real("above 0", [](double x) { return x > 0 && x < 1e18; });
  Flag no_decode = command.flag("--no-decode", flags->no_decode, "Measure prompts only");
  Flag engine = command.flag("--engine", flags->engine, "Requests through the engine, as generate and chat run them");
  Flag explain = command.flag("--explain-kernels", flags->explain_kernels,
                              "Print the kernel of each product for these batches and prompts instead");
  const Flag plain = command.flag("--plain", flags->plain, "Plain operations only");
  command.flag("--mmap", flags->mmap, "With --load on the CPU: use the weights where their files are mapped")
      .needs(load);
  const Flag no_graphs = command.flag("--no-graphs", flags->no_graphs, "Do not record passes");
  no_decode.needs(prefill);
  for (const Flag& idle : {batch, context, steps, bandwidth}) no_decode.excludes(idle);
  for (const Flag& idle : {prefill, bandwidth, no_decode}) engine.excludes(idle);
  for (const Flag& idle : {context, steps, bandwidth, no_decode, engine, attn, plain, no_graphs})
    explain.excludes(idle);
  for (const Flag& idle : {dtype, gemm, attn, layers, batch, context, prefill, steps, bandwidth, no_decode, engine,
                           explain, plain, no_graphs})
    load.excludes(idle);
  command.run([flags] { run(*flags); });
}

}  // namespace fathom
