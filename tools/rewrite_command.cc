#include "tools/rewrite_command.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/bytes_text.h"
#include "tools/output.h"
#include "tools/progress.h"

namespace fathom {
namespace {

using Json = nlohmann::ordered_json;

void print_json(const Json& summary) { print_output("{}\n", summary.dump(2)); }

void print_plan(const RewritePlan& plan, const RewriteFlags& flags) {
  const double rate = measure_disk(plan);
  const double seconds = static_cast<double>(plan.bytes()) / rate;
  if (flags.json) {
    Json summary{
        {"kind", plan.kind}, {"bytes", plan.bytes()}, {"seconds_estimated", seconds}, {"disk_bytes_per_second", rate}};
    summary["files"] = Json::array();
    for (const OutputFile& output : plan.outputs)
      summary["files"].push_back({{"name", output.name}, {"bytes", output.bytes}, {"tensors", output.items.size()}});
    summary["copied"] = plan.copies;
    return print_json(summary);
  }
  for (const OutputFile& output : plan.outputs)
    print_output("{}: {} tensors, {}\n", output.name, output.items.size(), bytes_text(output.bytes));
  for (const std::string& name : plan.copies) print_output("{}: copied\n", name);
  for (const auto& [name, text] : plan.texts) print_output("{}: {}\n", name, bytes_text(static_cast<i64>(text.size())));
  print_output("{} in all; about {:.0f} s at {}/s, the speed of this disk now\n", bytes_text(plan.bytes()), seconds,
               bytes_text(static_cast<i64>(rate)));
}

void print_result(const RewritePlan& plan, const RewriteReport& report, double seconds, bool json) {
  if (json)
    return print_json({{"kind", plan.kind},
                       {"target", plan.target.string()},
                       {"files", report.files},
                       {"files_kept", report.kept},
                       {"bytes_kept_of_unfinished_file", report.kept_bytes},
                       {"tensors", report.tensors},
                       {"bytes", report.bytes},
                       {"seconds", seconds}});
  const std::string target = plan.target.string();
  if (report.complete_before)
    return print_note("{} is complete already: {} files; --restart writes them again\n", target, report.files);
  std::string kept = report.kept > 0 ? fmt::format(" ({} finished before)", report.kept) : "";
  if (report.kept_bytes > 0) kept += fmt::format(", {} of another one were there", bytes_text(report.kept_bytes));
  print_note("{}: {} tensors, {} in {} files{}, {:.1f} s, {}/s\n", target, report.tensors, bytes_text(report.bytes),
             report.files, kept, seconds,
             bytes_text(static_cast<i64>(static_cast<double>(report.bytes) / std::max(seconds, 1e-9))));
}

}  // namespace

void add_rewrite_flags(Command& command, RewriteFlags& flags) {
  command.flag("--dry-run", flags.dry_run, "Print what would be written, and how long it would take");
  command.flag("--json", flags.json, "Summary as JSON on stdout");
  command.flag("--restart", flags.options.restart, "Begin again instead of going on where an earlier run stopped");
  command.flag("--force", flags.options.force, "Replace another checkpoint in the target folder");
  command.option("--threads", flags.options.threads, "Threads that read; 0 takes one a physical core")
      .range(0, 1024)
      .shows_default();
}

void run_rewrite(const RewritePlan& plan, const RewriteFlags& flags) {
  print_warnings(plan.warnings);
  for (const std::string& note : plan.notes) print_note("{}\n", note);
  if (flags.dry_run) {
    check_target(plan, flags.options);
    return print_plan(plan, flags);
  }
  RewriteReport report;
  double seconds = 0;
  {
    ProgressLine line(true);
    report = rewrite(plan, flags.options, [&](i64 done, i64 total) { line.show(done, total); });
    seconds = line.seconds();
  }
  print_result(plan, report, seconds, flags.json);
}

}  // namespace fathom
