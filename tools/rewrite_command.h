// What convert, fp8-cast-bf16 and quantize share on the command line.
#pragma once

#include <string>

#include "rewrite/rewrite.h"
#include "tools/command.h"

namespace fathom {

struct RewriteFlags {
  RewriteOptions options;
  bool dry_run = false, json = false;
};

// --dry-run --json --force --restart --threads.
void add_rewrite_flags(Command& command, RewriteFlags& flags);

// Prints the plan (--dry-run) or carries it out with progress, and sums it up.
void run_rewrite(const RewritePlan& plan, const RewriteFlags& flags);

}  // namespace fathom
