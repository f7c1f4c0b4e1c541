// What is read from standard input: all bytes as they are, and a failure told apart from the end.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fathom {

// The next line without its "\n"; nothing at the end, or when a signal with a handler came first. Throws Error when
// standard input cannot be read.
std::optional<std::string> read_input_line();

// All that is left.
std::string read_input();

// The text without the byte-order mark that some editors put in front of a file.
std::string_view without_byte_order_mark(std::string_view text);

}  // namespace fathom
