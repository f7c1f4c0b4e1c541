// fathom synth: writes a checkpoint of synthetic weights.

#include <charconv>
#include <memory>

#include "base/bytes_text.h"
#include "rewrite/write_synthetic.h"
#include "tools/command.h"
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/progress.h"

namespace fathom {
namespace {

constexpr const char* kMaxShardSize = "5GB";

struct Flags {
  SynthesisOptions options;
  std::string config, out, format = "hf", max_shard_size = kMaxShardSize;
};

// Bytes of "500MB", "2GiB", "123"; throws UsageError for other texts.
i64 parse_size(const std::string& text) {
  struct Unit {
    std::string_view name;
    i64 bytes;
  };
  constexpr Unit kUnits[] = {{"", 1},          {"B", 1},         {"KB", 1000},    {"MB", 1000000}, {"GB", 1000000000},
                             {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
  i64 value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view rest(stop, static_cast<std::size_t>(text.data() + text.size() - stop));
  for (const Unit& unit : kUnits) {
    i64 bytes = 0;
    if (error == std::errc{} && rest == unit.name && value > 0 && !__builtin_mul_overflow(value, unit.bytes, &bytes))
      return bytes;
  }
  throw UsageError(fmt::format("\"{}\" is no size; examples: 5GB, 512MiB, 1000000", text));
}

void run(Flags& flags) {
  SynthesisOptions& options = flags.options;
  options.config = flags.config;
  options.out = flags.out;
  options.sharded = flags.format == "sharded";
  options.max_shard_bytes = parse_size(flags.max_shard_size);
  if (options.model_parallel > 1 && !options.sharded)
    throw UsageError("--model-parallel needs --format sharded; a Hugging Face directory holds whole tensors");
  if (options.sharded && flags.max_shard_size != kMaxShardSize)
    throw UsageError("--max-shard-size has no effect with --format sharded, which writes one file a rank");
  SynthesisReport report;
  double seconds = 0;
  {
    ProgressLine line;
    report = write_synthetic(options, [&](i64 done, i64 total) { line.show(done, total); });
    seconds = line.seconds();
  }
  print_note("{}: {} tensors, {} in {} files, {:.1f} s, {}/s\n", flags.out, report.tensors, bytes_text(report.bytes),
             report.files, seconds,
             bytes_text(static_cast<i64>(static_cast<double>(report.bytes) / std::max(seconds, 1e-9))));
  print_warnings(report.warnings);
  if (!report.tokenizer) print_note("no tokenizer written: the vocabulary is smaller than a byte tokenizer\n");
}

}  // namespace

void add_synth(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  Command command(app, "synth", "Write a checkpoint of synthetic weights");
  command.option("--config", flags->config, "Configuration: a reference JSON, a config.json or a model directory")
      .required();
  command.option("--out", flags->out, "Folder to write").required();
  command.option("--seed", flags->options.seed, "Seed of all weights").shows_default();
  command.option("--format", flags->format, "hf or sharded").one_of({"hf", "sharded"}).shows_default();
  command.option("--model-parallel", flags->options.model_parallel, "Ranks of a sharded checkpoint")
      .range(1, 4096)
      .shows_default();
  command.option("--layers", flags->options.layers, "Cut the model to so many layers").range(1, 1024);
  command.option("--max-shard-size", flags->max_shard_size, "Largest file of an hf checkpoint, such as 5GB")
      .shows_default();
  command.option("--threads", flags->options.threads, "Threads; 0 takes one a physical core")
      .range(0, 1024)
      .shows_default();
  command.run([flags] { run(*flags); });
}

}  // namespace fathom
