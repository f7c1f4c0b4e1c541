#include "tools/model_flags.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>

#include "backends/create.h"
#include "tools/progress.h"

namespace fathom {
namespace {

// A check of a number, written so that NaN fails it.
CLI::Validator real(const std::string& rule, bool (*good)(double)) {
  return CLI::Validator(
      [rule, good](const std::string& text) {
        double value = 0;
        const bool number = CLI::detail::lexical_cast(text, value);
        return number && good(value) ? std::string() : fmt::format("'{}' must be {}", text, rule);
      },
      "");
}

// Says what this build has.
std::string device_help() {
  const std::string known = known_devices();
  return known.find("cuda") == std::string::npos ? "cpu, or auto for the best there is"
                                                 : "cpu, cuda, cuda:N for the N-th GPU, or auto for the best there is";
}

CLI::Validator not_empty() {
  return CLI::Validator(
      [](const std::string& text) { return text.empty() ? std::string("must not be empty") : std::string(); }, "");
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
  std::string choice;
  auto backend = create_backend(device, threads, &choice);
  if (device == "auto" && !choice.starts_with("cpu")) fmt::print(stderr, "device: {}\n", choice);
  return backend;
}

Session load_session(const ModelSource& source, const ModelFlags& flags) {
  constexpr i64 kShown = i64{1} << 28;  // bytes; smaller models load at once
  ProgressLine line;
  return Session(source, flags.backend(), flags.options(), [&](i64 done, i64 total) {
    if (total > kShown) line.show(done, total);
  });
}

void add_compute_flags(CLI::App& app, ModelFlags& flags) {
  const auto one_of = [](std::vector<std::string> names) { return CLI::IsMember(std::move(names)); };
  app.add_option("--compute", flags.compute, "Type of activations and cache: bf16 or f32")
      ->check(one_of({"bf16", "f32"}))
      ->capture_default_str();
  app.add_option("--gemm", flags.gemm, "Products with FP8 weights: bf16 (weights dequantised) or fp8 (both quantised)")
      ->check(one_of({"bf16", "fp8"}))
      ->capture_default_str();
  app.add_option("--attn", flags.attn, "Attention in the latent space (absorb) or by expanded heads (naive)")
      ->check(one_of({"absorb", "naive"}))
      ->capture_default_str();
  app.add_option("--threads", flags.threads, "CPU threads; 0: one a physical core")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  app.add_option("--device", flags.device, device_help())->capture_default_str();
  app.add_flag("--mmap", flags.session.map,
               "On the CPU: use the weights where their files are mapped: there at once when read before, but slower");
}

void add_model_flags(CLI::App& app, ModelFlags& flags) {
  add_compute_flags(app, flags);
  app.add_option("--max-seq-len", flags.session.max_seq_len,
                 "Longest prompt and answer together; else the configuration's")
      ->check(CLI::Range(i64{1}, i64{1} << 24));
  app.add_option("--cache-tokens", flags.session.cache_tokens,
                 "Tokens that the cache holds; else for all sequences at full length, or what fits beside the weights")
      ->check(CLI::Range(i64{1}, i64{1} << 40));
  app.add_option("--chunk", flags.session.chunk, "Prompt tokens of a pass; else 512, on a GPU 4096")
      ->check(CLI::Range(i64{1}, i64{1} << 24));
  app.add_flag("--no-graphs", flags.no_graphs, "On a GPU: launch each operation instead of replaying recorded steps");
  app.add_option("--max-batch-size", flags.session.max_batch_size, "Sequences run at once; else the configuration's")
      ->check(CLI::Range(i64{1}, i64{1} << 16));
}

void add_answer_flags(CLI::App& app, AnswerFlags& flags) {
  SamplingParams& sampling = flags.options.sampling;
  app.add_option("--max-new-tokens", flags.options.max_new_tokens, "Longest answer")
      ->check(CLI::Range(i64{0}, i64{1} << 40))
      ->capture_default_str();
  app.add_option("--temperature", sampling.temperature, "Sampling temperature; 0 or less takes the likeliest token")
      ->check(real("a number below 1e6", [](double x) { return std::abs(x) < 1e6; }))
      ->capture_default_str();
  app.add_option("--seed", sampling.seed, "Seed of the drawn tokens")->capture_default_str();
  app.add_option("--top-k", sampling.top_k, "Draw among the K likeliest tokens; 0: all")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  app.add_option("--top-p", sampling.top_p, "Draw among the likeliest tokens that hold this probability; 1: all")
      ->check(real("above 0 and at most 1", [](double x) { return x > 0 && x <= 1; }))
      ->capture_default_str();
  app.add_option("--min-p", sampling.min_p, "Draw among tokens at least this likely against the likeliest; 0: all")
      ->check(real("between 0 and 1", [](double x) { return x >= 0 && x <= 1; }))
      ->capture_default_str();
  app.add_option("--repetition-penalty", sampling.repetition_penalty, "Makes tokens seen before less likely; 1: none")
      ->check(real("above 0", [](double x) { return x > 0 && x < 1e6; }))
      ->capture_default_str();
  app.add_option("--stop", flags.options.stop, "Text that ends the answer; may be given several times")
      ->check(not_empty())
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--system", flags.system, "System message put before the conversation");
  app.add_option("--chat-template", flags.chat_template, "File with a chat template, instead of the model's own");
  app.add_flag("--allow-special-in-content", flags.allow_special_in_content,
               "Let special tokens spelled out in messages act as such");
}

void add_report_flags(CLI::App& app, AnswerFlags& flags) {
  app.add_flag("--json", flags.json, "Print each answer as one line of JSON");
  app.add_option("--logprobs", flags.options.n_logprobs,
                 "Report each token's log-probability and those of the N likeliest")
      ->check(CLI::Range(0, 1000));
}

}  // namespace fathom
