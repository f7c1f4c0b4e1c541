// fathom bench: speed of decode and prefill for any configuration, on random weights made on the device.
#include <CLI/CLI.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>

#include "backends/create.h"
#include "engine/decode_graphs.h"
#include "engine/memory.h"
#include "model/source.h"
#include "model/transformer.h"
#include "ops/sampling.h"
#include "ops/trace.h"
#include "tools/bench_bytes.h"
#include "tools/bench_engine.h"
#include "tools/commands.h"

namespace fathom {
namespace {

struct Flags {
  std::string config, load, device = "auto", dtype, gemm = "bf16", attn = "absorb";
  std::vector<i64> batches{1}, contexts{128}, prefills;
  i64 steps = 64, layers = 0, threads = 0;
  double bandwidth = 4.3e12;  // bytes a second that the floor is counted with
  bool plain = false, no_graphs = false, mmap = false, no_decode = false, engine = false;
};

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

ModelArgs bench_args(const Flags& flags) {
  ModelArgs args = load_config(flags.config);
  if (!flags.dtype.empty()) args.dtype = flags.dtype;
  if (flags.layers > 0) args.n_layers = flags.layers;
  return args;
}

// The pass's inputs on the device, for `tokens` tokens of `sequences` sequences.
class Inputs {
 public:
  static constexpr i64 kBlock = 64, kLogRows = 4096;

  // Every sequence has `context` tokens before the pass and `fresh` in it; room for `room` tokens each. They are
  // expanded from `expand_from` fresh tokens on.
  Inputs(Backend& backend, i64 sequences, i64 context, i64 fresh, i64 room, i64 expand_from) : backend_(backend) {
    const i64 tokens = sequences * fresh, width = (room + kBlock - 1) / kBlock;
    storage_ = backend.allocate(
        static_cast<std::size_t>((8 * (tokens + sequences) + sequences * (width + kLogRows + 64)) * 8 + 65536));
    arena_ = std::make_unique<Arena>(Storage(storage_.data(), storage_.bytes(), backend.device(), [](void*) {}));
    const auto ints = [&](i64 n, auto value) { return fill<std::int32_t>(DType::i32, n, value); };
    batch.ids = ints(tokens, [](i64 i) { return 100 + i * 37 % 1000; });
    Sequences all;
    all.positions = ints(tokens, [&](i64 i) { return context + i % fresh; });
    all.slots = ints(tokens, [&](i64 i) { return i / fresh * width * kBlock + context + i % fresh; });
    all.seq_starts = ints(sequences + 1, [&](i64 i) { return i * fresh; });
    all.context_lens = ints(sequences, [&](i64) { return context + fresh; });
    all.context_starts = ints(sequences + 1, [&](i64 i) { return i * (context + fresh); });
    all.block_tables = ints(sequences * width, [](i64 i) { return i; }).view({sequences, width});
    batch.logit_rows = ints(sequences, [&](i64 i) { return (i + 1) * fresh - 1; });
    all.max_context = context + fresh;
    all.total_context = sequences * all.max_context;
    all.expanded = fresh >= expand_from;
    batch.runs = {all};
    const auto floats = [&](float value) { return fill<float>(DType::f32, sequences, [value](i64) { return value; }); };
    const auto longs = [&] { return fill<i64>(DType::i64, sequences, [](i64) { return 0; }); };
    sampling = {floats(0), ints(sequences, [](i64) { return 0; }), floats(1), floats(0), floats(1), longs(), longs(),
                {}};
    log = ints((kLogRows + 1) * sequences, [](i64) { return 0; }).view({kLogRows + 1, sequences});
  }

  Batch batch;
  SampleArgs sampling;
  Tensor log;

 private:
  template <typename T, typename F>
  Tensor fill(DType dtype, i64 n, F value) {
    std::vector<T> values(static_cast<std::size_t>(n));
    for (i64 i = 0; i < n; ++i) values[static_cast<std::size_t>(i)] = static_cast<T>(value(i));
    Tensor x = arena_->empty({n}, dtype);
    x = Tensor(x.data(), dtype, {n}, backend_.device());
    backend_.upload(x, values.data());
    return x;
  }
  Backend& backend_;
  Storage storage_;
  std::unique_ptr<Arena> arena_;
};

// The model with random weights, and a cache of `rows` tokens.
class Session {
 public:
  Session(Backend& backend, const ModelArgs& args, const ComputeOptions& options, i64 rows)
      : backend_(backend),
        args_(args),
        options_(options),
        store_(backend, 0, 1),
        model_(Params(store_, args_, options_)),
        cache_(backend, args_, args_.n_layers, (rows + Inputs::kBlock - 1) / Inputs::kBlock, Inputs::kBlock,
               options_.compute) {}

  i64 expand_from() const { return options_.attn == AttnImpl::naive ? 0 : backend_.expand_from(); }
  void prepare(const Batch& batch, const SampleArgs& sampling) {
    TraceBackend nothing;
    Arena measure;
    pass(nothing, measure, batch, sampling, nullptr);
    const std::size_t need = measure.peak() + (1u << 20);
    if (need > capacity_) {
      arena_ = Arena(backend_.allocate(need));
      capacity_ = need;
    }
  }
  void run(const Batch& batch, const SampleArgs& sampling, const Tensor* log) {
    pass(backend_, arena_, batch, sampling, log);
  }

 private:
  void pass(Backend& backend, Arena& arena, const Batch& batch, const SampleArgs& sampling, const Tensor* log) {
    const ArenaScope scope(arena);
    Context ctx{backend, arena, ranks_, options_};
    const Tensor logits = model_(ctx, batch, cache_);
    const Tensor drawn = ops::sample(ctx, logits, sampling);
    if (log != nullptr) ops::advance(ctx, batch, drawn, sampling.step, *log, Inputs::kBlock);
  }

  Backend& backend_;
  ModelArgs args_;
  ComputeOptions options_;
  SingleCommunicator ranks_;
  WeightStore store_;
  Transformer model_;
  LatentCache cache_;
  Arena arena_;
  std::size_t capacity_ = 0;
};

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

void bench_decode(const Flags& flags, Backend& backend, const ModelArgs& args, Session& session, i64 batch, i64 context,
                  double gap) {
  const i64 room = context + flags.steps + 16;
  Inputs inputs(backend, batch, context, 1, room, session.expand_from());
  const i64 rounded = DecodeGraphs::rounded_context(room);
  inputs.batch.runs[0].max_context = rounded;
  inputs.batch.runs[0].total_context = batch * rounded;
  session.prepare(inputs.batch, inputs.sampling);
  DecodeGraphs graphs(backend);
  const auto step = [&] {
    const auto pass = [&] { session.run(inputs.batch, inputs.sampling, &inputs.log); };
    flags.no_graphs ? pass() : graphs.run(batch, rounded, pass);
  };
  for (int i = 0; i < 4; ++i) step();
  backend.synchronize();
  const auto start = Clock::now();
  for (i64 i = 0; i < flags.steps; ++i) step();
  backend.synchronize();
  const double seconds = seconds_since(start) / static_cast<double>(flags.steps);
  const double floor = decode_bytes(args, batch, context) / flags.bandwidth;
  const i64 operations = graphs.operations(batch, rounded);
  std::printf(
      "decode   batch %4lld ctx %6lld  %8.3f ms/step %10.1f tok/s  floor %7.3f ms  share %5.1f %%  kernels/layer "
      "%.1f  gaps up to %.3f ms\n",
      static_cast<long long>(batch), static_cast<long long>(context), seconds * 1e3,
      static_cast<double>(batch) / seconds, floor * 1e3, 100 * floor / seconds,
      static_cast<double>(operations) / static_cast<double>(args.n_layers),
      static_cast<double>(operations) * gap * 1e3);
  std::fflush(stdout);
}

void bench_prefill(Backend& backend, Session& session, i64 tokens) {
  Inputs inputs(backend, 1, 0, tokens, tokens, session.expand_from());
  session.prepare(inputs.batch, inputs.sampling);
  double best = 1e30;
  for (int i = 0; i < 3; ++i) {
    const auto start = Clock::now();
    session.run(inputs.batch, inputs.sampling, nullptr);
    backend.synchronize();
    best = std::min(best, seconds_since(start));
  }
  std::printf("prefill  tokens %6lld          %8.3f ms      %10.1f tok/s\n", static_cast<long long>(tokens), best * 1e3,
              static_cast<double>(tokens) / best);
  std::fflush(stdout);
}

// Throws Error before anything is loaded when the weights and a cache of `rows` tokens cannot fit.
void require_memory(const Backend& backend, const ModelArgs& args, const ComputeOptions& options, i64 rows) {
  const RunnerOptions room{.max_tokens = 1,
                           .max_sequences = 1,
                           .max_seq_len = args.max_seq_len,
                           .blocks = (rows + Inputs::kBlock - 1) / Inputs::kBlock,
                           .block_size = Inputs::kBlock,
                           .compute = options};
  const auto memory = backend.memory();
  if (memory) fitting_blocks(measure_memory(args, room), room, memory);
}

// How long a checkpoint's weights take to their places on the device.
void bench_load(const Flags& flags) {
  const auto backend = create_backend(flags.device, static_cast<int>(flags.threads));
  const auto start = Clock::now();
  const ModelSource source = open_model(flags.load, flags.config, 0, 1);
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
  const ModelArgs args = bench_args(flags);
  std::string choice;
  const auto backend = create_backend(flags.device, static_cast<int>(flags.threads), &choice);
  ComputeOptions options;
  options.gemm = flags.gemm == "fp8" ? GemmMode::fp8 : GemmMode::bf16;
  options.attn = flags.attn == "naive" ? AttnImpl::naive : AttnImpl::absorb;
  options.fused = !flags.plain;
  i64 rows = 64;
  if (!flags.no_decode)
    for (const i64 b : flags.batches)
      for (const i64 c : flags.contexts) rows = std::max(rows, b * (c + flags.steps + 16 + Inputs::kBlock));
  for (const i64 t : flags.prefills) rows = std::max(rows, t + Inputs::kBlock);
  std::printf("%s  %s %lld layers, %s weights, gemm %s, attn %s, device %s\n", flags.config.c_str(), args.dtype.c_str(),
              static_cast<long long>(args.n_layers), std::string(args.format().name()).c_str(), flags.gemm.c_str(),
              flags.attn.c_str(), choice.c_str());
  if (flags.engine) {
    std::vector<EngineCase> cases;
    for (const i64 b : flags.batches)
      for (const i64 c : flags.contexts) cases.push_back({b, c, flags.steps, !flags.no_graphs});
    return bench_engine(*backend, args, options, cases);
  }
  require_memory(*backend, args, options, rows);
  const auto start = Clock::now();
  Session session(*backend, args, options, rows);
  backend->synchronize();
  std::printf("weights and cache ready after %.1f s\n", seconds_since(start));
  const double gap = kernel_gap(*backend);
  if (gap > 0) std::printf("a recorded operation without work takes %.2f us\n", gap * 1e6);
  if (!flags.no_decode)
    for (const i64 b : flags.batches)
      for (const i64 c : flags.contexts) bench_decode(flags, *backend, args, session, b, c, gap);
  for (const i64 t : flags.prefills) bench_prefill(*backend, session, t);
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
  command->add_flag("--plain", flags->plain, "Plain operations only");
  command->add_flag("--mmap", flags->mmap, "With --load on the CPU: use the weights where their files are mapped");
  command->add_flag("--no-graphs", flags->no_graphs, "Do not record passes");
  command->callback([flags] { run(*flags); });
}

}  // namespace fathom
