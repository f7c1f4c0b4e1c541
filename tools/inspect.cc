// fathom inspect: what a checkpoint or a configuration is.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>

#include "rewrite/inspect.h"
#include "tools/commands.h"
#include "tools/inspect_format.h"

namespace fathom {
namespace {

struct Flags {
  InspectOptions options;
  bool json = false;
};

void run(const Flags& flags) {
  if (flags.options.model.empty() && flags.options.config.empty())
    throw UsageError("name a model directory, or a configuration with --config");
  const InspectReport report = inspect(flags.options);
  const std::string text = flags.json ? report_json(report) : report_text(report);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  require_complete(report);
}

}  // namespace

void add_inspect(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("inspect", "Describe a checkpoint or a configuration");
  command->add_option("model", flags->options.model, "Model directory, or synthetic:CONFIG[:SEED]");
  command->add_option("--config", flags->options.config, "Configuration to use instead of the directory's, or alone");
  command->add_option("--tp", flags->options.tp, "Ranks that the memory figures are for")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--max-batch-size", flags->options.max_batch_size, "Sequences of the cache figure")
      ->check(CLI::Range(1, 4096));
  command->add_option("--max-seq-len", flags->options.max_seq_len, "Tokens a sequence of the cache figure")
      ->check(CLI::Range(1, 1 << 24));
  command->add_flag("--json", flags->json, "Print JSON");
  command->callback([flags] { run(*flags); });
}

}  // namespace fathom
