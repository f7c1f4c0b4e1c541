// What is read from standard input: all bytes as they are, and a failure told apart from the end.
#pragma once

#include <optional>
#include <string>

namespace fathom {

// The next line without its "\n"; nothing at the end, or when a signal with a handler came first. Throws Error when
// standard input cannot be read.
std::optional<std::string> read_input_line();

// All that is left.
std::string read_input();

}  // namespace fathom
