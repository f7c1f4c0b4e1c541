// LineReader: lines from the keyboard with editing and history, or from a pipe.
#pragma once

#include <memory>
#include <optional>
#include <string>

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
  ~LineReader();

  enum class Kind { line, interrupted, end };
  struct Result {
    Kind kind = Kind::end;
    std::string text;
  };
  // The next line without its end. `interrupted`: Ctrl-C threw away what was typed.
  Result next();

 private:
  struct Editor;
  std::string prompt_;
  std::unique_ptr<Editor> editor_;
};

}  // namespace fathom
