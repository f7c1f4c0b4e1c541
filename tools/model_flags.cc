#include "tools/model_flags.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "backends/create.h"
#include "model/verdict.h"
#include "tools/output.h"
#include "tools/progress.h"

namespace fathom {
namespace {

// Says what this build has.
std::string device_help() {
  const std::string known = known_devices();
  return known.find("cuda") == std::string::npos ? "cpu, or auto for the best there is"
                                                 : "cpu, cuda, cuda:N for the N-th GPU, or auto for the best there is";
}

}  // namespace

SessionOptions ModelFlags::options() const {
  SessionOptions options = session;
  options.compute = {.compute = compute == "f32" ? DType::f32 : DType::bf16,
                     .gemm = gemm == "fp8" ? GemmMode::fp8 : GemmMode::bf16,
                     .attn = attn == "naive" ? AttnImpl::naive : AttnImpl::absorb};
  options.record = !no_graphs;
  return options;
}

std::unique_ptr<Backend> ModelFlags::backend() const {
  refuse_ranks();
  std::string choice;
  auto backend = create_backend(device, threads, &choice);
  if (device == "auto" && !choice.starts_with("cpu")) print_note("device: {}\n", choice);
  const bool cpu = backend->device().type == DeviceType::cpu;
  if (cpu && no_graphs) print_warning("--no-graphs has no effect: the CPU records no steps");
  if (!cpu && session.map) print_warning("--mmap has no effect: the weights are copied to the GPU");
  if (!cpu && threads > 0) print_warning("--threads has no effect: the model runs on the GPU");
  return backend;
}

void check_weights(const ModelSource& source, const ModelFlags& flags) {
  require_sound(judge(source.args, *source.checkpoint, false), source.checkpoint->description(), flags.ignore_unused);
}

void refuse_ranks() {
  const char* world_size = std::getenv("WORLD_SIZE");
  if (world_size == nullptr || std::string(world_size) == "1" || std::string(world_size).empty()) return;
  fail("WORLD_SIZE={}: this version runs as one process only; start it without a launcher or with WORLD_SIZE=1",
       world_size);
}

void warn_of_idle_flags(const ModelFlags& flags, const ModelArgs& args) {
  if (flags.gemm == "fp8" && args.dtype != "fp8")
    print_warning("--gemm fp8 has no effect: the model's weights are not FP8");
  // A configuration of the reference says how much it serves, and YaRN how much the model can.
  const i64 yarn = args.yarn ? static_cast<i64>(static_cast<double>(args.original_seq_len) * args.rope_factor) : 0;
  const i64 made_for = std::max({args.max_seq_len, args.original_seq_len, yarn});
  if (flags.session.max_seq_len > made_for)
    print_warning(fmt::format("--max-seq-len {}: the model was made for {} tokens; what lies beyond may be nonsense",
                              flags.session.max_seq_len, made_for));
}

ModelSource open_named_model(const std::string& model, const std::string& config) {
  ModelSource source = open_model(model, config);
  print_warnings(source.args.warnings);
  return source;
}

void tell_of_model(const ModelArgs& args) {
  print_note("{}\n", args.yarn_text());
  if (args.n_mtp_layers > 0) print_note("{} not used\n", mtp_layers_text(args));
}

Session load_session(const ModelSource& source, const ModelFlags& flags, const LoadProgress& progress) {
  check_weights(source, flags);
  warn_of_idle_flags(flags, source.args);
  constexpr i64 kShown = i64{1} << 28;  // bytes; smaller models load at once
  ProgressLine line;
  Session session(source, flags.backend(), flags.options(), [&](i64 done, i64 total) {
    if (total > kShown) line.show(done, total);
    if (progress) progress(done, total);
  });
  tell_of_model(source.args);
  return session;
}

void add_compute_flags(Command& command, ModelFlags& flags) {
  command.option("--compute", flags.compute, "Type of activations and cache: bf16 or f32")
      .one_of({"bf16", "f32"})
      .shows_default();
  command.option("--gemm", flags.gemm, "Products with FP8 weights: bf16 (weights dequantised) or fp8 (both quantised)")
      .one_of({"bf16", "fp8"})
      .shows_default();
  command.option("--attn", flags.attn, "Attention in the latent space (absorb) or by expanded heads (naive)")
      .one_of({"absorb", "naive"})
      .shows_default();
  command.option("--threads", flags.threads, "CPU threads; 0: one a physical core").range(0, 4096).shows_default();
  command.option("--device", flags.device, device_help()).shows_default();
  command.flag("--ignore-unused", flags.ignore_unused, "Run without the tensors that the model does not have");
  command.flag("--mmap", flags.session.map,
               "On the CPU: use the weights where their files are mapped: there at once when read before, but slower");
}

void add_model_flags(Command& command, ModelFlags& flags) {
  add_compute_flags(command, flags);
  command
      .option("--max-seq-len", flags.session.max_seq_len,
              "Longest prompt and answer together; else the configuration's")
      .range(1, i64{1} << 24);
  command
      .option("--cache-tokens", flags.session.cache_tokens,
              "Tokens that the cache holds; else for all sequences at full length, or what fits beside the weights")
      .range(1, i64{1} << 40);
  command.option("--chunk", flags.session.chunk, "Prompt tokens of a pass; else 512, on a GPU 4096")
      .range(1, i64{1} << 24);
  command.flag("--no-graphs", flags.no_graphs, "On a GPU: launch each operation instead of replaying recorded steps");
}

void add_answer_flags(Command& command, AnswerFlags& flags, const std::string& length_help) {
  SamplingParams& sampling = flags.options.sampling;
  command.option("--max-new-tokens", flags.options.max_new_tokens, length_help).range(0, i64{1} << 40).shows_default();
  command.option("--temperature", sampling.temperature, "Sampling temperature; 0 or less takes the likeliest token")
      .real("a number below 1e6", [](double x) { return std::abs(x) < 1e6; })
      .shows_default();
  command.option("--seed", sampling.seed, "Seed of the drawn tokens").shows_default();
  command.option("--top-k", sampling.top_k, "Draw among the K likeliest tokens; 0: all")
      .range(0, 1 << 30)
      .shows_default();
  command.option("--top-p", sampling.top_p, "Draw among the likeliest tokens that hold this probability; 1: all")
      .real("above 0 and at most 1", [](double x) { return x > 0 && x <= 1; })
      .shows_default();
  command.option("--min-p", sampling.min_p, "Draw among tokens at least this likely against the likeliest; 0: all")
      .real("between 0 and 1", [](double x) { return x >= 0 && x <= 1; })
      .shows_default();
  command.option("--repetition-penalty", sampling.repetition_penalty, "Makes tokens seen before less likely; 1: none")
      .real("above 0", [](double x) { return x > 0 && x < 1e6; })
      .shows_default();
  command.option("--stop", flags.options.stop, "Text that ends the answer; may be given several times").repeatable();
  command.option("--system", flags.system, "System message put before the conversation").may_be_empty();
  command.option("--chat-template", flags.chat_template, "File with a chat template, instead of the model's own");
  command.flag("--allow-special-in-content", flags.allow_special_in_content,
               "Let special tokens spelled out in messages act as such");
}

void add_report_flags(Command& command, AnswerFlags& flags) {
  command.flag("--json", flags.json, "Print each answer as one line of JSON");
  command
      .option("--logprobs", flags.options.n_logprobs,
              "Report each token's log-probability and those of the N likeliest")
      .range(0, 1000);
}

}  // namespace fathom
