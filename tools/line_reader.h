// LineReader: messages from the keyboard with editing and history, or lines from a pipe.
#pragma once

#include <memory>
#include <string>

#include "tools/line_editor.h"

namespace fathom {

// Ctrl-C as a flag, from construction to destruction; at most one at a time.
class InterruptFlag {
 public:
  InterruptFlag();
  InterruptFlag(const InterruptFlag&) = delete;
  InterruptFlag& operator=(const InterruptFlag&) = delete;
  ~InterruptFlag();
  // True once for each Ctrl-C (or several quick ones).
  static bool take();
  static bool pending();
};

class LineReader {
 public:
  // `edit` on a terminal gives line editing and history; else the prompt is written plainly to standard output.
  LineReader(const std::string& prompt, bool edit);

  enum class Kind { line, interrupted, end };
  struct Result {
    Kind kind = Kind::end;
    std::string text;
  };
  // The next line without its end; at a terminal a pasted text, and what stands between two """, is one line whatever
  // it holds. A byte-order mark before the first line of a pipe is no part of it. `interrupted`: Ctrl-C threw away what
  // was typed. Throws Error when standard input cannot be read.
  Result next();

 private:
  Result piped();
  Result typed();

  std::string prompt_;
  std::unique_ptr<LineEditor> editor_;  // none: a pipe
  bool begun_ = false;
};

}  // namespace fathom
