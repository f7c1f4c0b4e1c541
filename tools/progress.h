// Progress on stderr: bytes done, speed, seconds left; one line on a terminal, else a plain line now and then.
#pragma once

#include <chrono>

#include "base/check.h"

namespace fathom {

class ProgressLine {
 public:
  // Where stderr is no terminal it is silent, or with `plain_lines` prints a line every few seconds.
  explicit ProgressLine(bool plain_lines = false);
  // Ends the line when one was shown.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(i64 done, i64 total);
  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_, shown_;
  bool terminal_, plain_lines_, open_ = false;
};

}  // namespace fathom
