// fathom verify: whether a checkpoint is whole and sound.

#include <memory>

#include <nlohmann/json.hpp>

#include "base/bytes_text.h"
#include "rewrite/verify.h"
#include "tools/command.h"
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/progress.h"

namespace fathom {
namespace {

struct Flags {
  VerifyOptions options;
  std::string model, against;
  bool json = false;
};

void print(const VerifyReport& report, bool json) {
  if (json) {
    nlohmann::ordered_json summary{{"faults", report.faults}, {"notes", report.notes}, {"files", report.files}};
    summary["compared_with"] = report.compared_with;
    summary["compared_bytes"] = report.hashed_bytes;
    summary["numbers_bytes"] = report.numbers_bytes;
    print_output("{}\n", summary.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return;
  }
  for (const std::string& fault : report.faults) print_output("fault: {}\n", fault);
  for (const std::string& note : report.notes) print_output("note: {}\n", note);
  const std::string compared =
      report.compared_with.empty()
          ? "; no hashes to compare with (--against)"
          : fmt::format("; {} compared with {}", bytes_text(report.hashed_bytes), report.compared_with);
  const std::string numbers = report.numbers_bytes == 0
                                  ? "; numbers not looked at (--numbers)"
                                  : fmt::format("; numbers in {} looked at", bytes_text(report.numbers_bytes));
  if (report.faults.empty()) print_output("{} files without fault{}{}\n", report.files, compared, numbers);
}

void run(Flags& flags) {
  flags.options.model = flags.model;
  flags.options.against = flags.against;
  VerifyReport report;
  {
    ProgressLine line(true);
    report = verify(flags.options, [&](i64 done, i64 total) { line.show(done, total); });
  }
  print_warnings(report.warnings);
  print(report, flags.json);
  CHECK(report.faults.empty(), "{}: {} fault{}, the first: {}", flags.model, report.faults.size(),
        report.faults.size() == 1 ? "" : "s", report.faults.front());
}

}  // namespace

void add_verify(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  Command command(app, "verify", "Check that a checkpoint is whole and sound");
  command.option("model", flags->model, "Directory of the checkpoint").required();
  command.option("--against", flags->against,
                 "A manifest.json, a list of SHA-256 hashes, or another directory; without it the directory's own "
                 "manifest.json, or in a hub cache the hashes that name its files");
  command.option("--config", flags->options.config, "Configuration to use instead of the directory's");
  command.option("--threads", flags->options.threads, "Threads; 0 takes one a physical core")
      .range(0, 1024)
      .shows_default();
  command.flag("--numbers", flags->options.numbers,
               "Read all numbers too: finds NaN, infinities, and matrices of nothing but zeros");
  command.flag("--json", flags->json, "Report as JSON");
  command.run([flags] { run(*flags); });
}

}  // namespace fathom
