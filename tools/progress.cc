#include "tools/progress.h"

#include <unistd.h>

#include <algorithm>

#include "base/bytes_text.h"
#include "tools/output.h"

namespace fathom {

ProgressLine::ProgressLine(bool plain_lines)
    : start_(Clock::now()), shown_(start_), terminal_(::isatty(STDERR_FILENO) == 1), plain_lines_(plain_lines) {}

ProgressLine::~ProgressLine() {
  if (open_) write_note("\n");
}

double ProgressLine::seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

void ProgressLine::show(i64 done, i64 total) {
  const auto now = Clock::now();
  if (!terminal_ && !plain_lines_) return;
  const std::chrono::milliseconds pause(terminal_ ? 200 : 5000);
  if (now - shown_ < pause && (done < total || !terminal_)) return;
  shown_ = now;
  open_ = terminal_;
  const double rate = static_cast<double>(done) / std::max(seconds(), 1e-9);
  print_note("{}{} of {}, {}/s, {:.0f} s left{}", terminal_ ? "\r" : "", bytes_text(done), bytes_text(total),
             bytes_text(static_cast<i64>(rate)), static_cast<double>(total - done) / std::max(rate, 1.0),
             terminal_ ? "   " : "\n");
}

}  // namespace fathom
