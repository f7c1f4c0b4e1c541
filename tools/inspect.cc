// fathom inspect: what a checkpoint or a configuration is.

#include <memory>

#include "rewrite/inspect.h"
#include "tools/command.h"
#include "tools/commands.h"
#include "tools/inspect_format.h"
#include "tools/output.h"

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
  print_warnings(report.args.warnings);
  write_output(flags.json ? report_json(report) : report_text(report));
  require_complete(report);
}

}  // namespace

void add_inspect(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  Command command(app, "inspect", "Describe a checkpoint or a configuration");
  command.option("model", flags->options.model, "Model directory, or synthetic:CONFIG[:SEED]");
  command.option("--config", flags->options.config, "Configuration to use instead of the directory's, or alone");
  command
      .option("--tp", flags->options.tp, "Ranks that the memory figures are for; else those that it is divided among")
      .range(1, 4096);
  command.option("--max-batch-size", flags->options.max_batch_size, "Sequences of the cache figure").range(1, 4096);
  command.option("--max-seq-len", flags->options.max_seq_len, "Tokens a sequence of the cache figure")
      .range(1, 1 << 24);
  command.flag("--json", flags->json, "Print JSON");
  command.run([flags] { run(*flags); });
}

}  // namespace fathom
