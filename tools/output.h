// The one place that writes to standard output and standard error, so that nothing is lost in silence.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"

namespace fathom {

// A failure whose line was already written; only the exit status is left to give.
class ToldError : public std::exception {};

// Before anything is opened: descriptors 0 to 2 that are closed get a place holder (an empty input, an output that
// refuses what is written, an error output that drops it), so that no file of a model becomes one of them; and a pipe
// that nobody reads is an error of the write, not the end of the program.
void prepare_standard_streams();

// To standard output, at once. Throws Error when it cannot be written.
void write_output(std::string_view text);

// Many small pieces for standard output, collected to fewer writes.
class OutputBuffer {
 public:
  OutputBuffer() = default;
  OutputBuffer(const OutputBuffer&) = delete;
  OutputBuffer& operator=(const OutputBuffer&) = delete;
  // Writes what is left when an error ends the work; else finish() has done so, which can say that it failed.
  ~OutputBuffer();

  void write(std::string_view text);
  void finish();

 private:
  std::string text_;
};

template <typename... Args>
void print_output(fmt::format_string<Args...> format, Args&&... args) {
  write_output(fmt::format(format, std::forward<Args>(args)...));
}

// To standard error. Where that cannot be done there is no one to tell.
void write_note(std::string_view text);

template <typename... Args>
void print_note(fmt::format_string<Args...> format, Args&&... args) {
  write_note(fmt::format(format, std::forward<Args>(args)...));
}

// "fathom: error: MESSAGE" to standard error, as one line whatever the message holds; the same of a warning.
void print_error(const std::string& message);
void print_warning(const std::string& message);
void print_warnings(const std::vector<std::string>& messages);

}  // namespace fathom
