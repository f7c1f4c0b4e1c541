#include "tools/prompt_file.h"

#include <string_view>

#include "base/file.h"
#include "text/unicode/classes.h"
#include "text/unicode/utf8.h"

namespace fathom {
namespace {

// Python's str.isspace: Unicode white space and the four separators of ASCII.
bool is_python_space(char32_t c) { return is_space(c) || (c >= 0x1c && c <= 0x1f); }

std::string_view strip(std::string_view line) {
  std::size_t begin = 0, end = line.size();
  for (std::size_t at = 0; at < end && is_python_space(next_char(line, at));) begin = at;
  for (std::size_t at = end; at > begin && is_python_space(previous_char(line, at));) end = at;
  return line.substr(begin, end - begin);
}

}  // namespace

std::vector<std::string> read_prompt_file(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  std::vector<std::string> lines;
  std::string_view rest = without_byte_order_mark(text);
  while (!rest.empty()) {  // "\n", "\r\n" and "\r" end a line
    const std::size_t end = std::min(rest.find_first_of("\r\n"), rest.size());
    const std::string_view line = rest.substr(0, end);
    CHECK(is_valid_utf8(line), "line {} of {} is not valid UTF-8", lines.size() + 1, path.string());
    lines.emplace_back(strip(line));
    rest.remove_prefix(std::min(rest.size(), end + (rest.substr(end, 2) == "\r\n" ? 2u : 1u)));
  }
  CHECK(!lines.empty(), "{} has no lines; it must hold one prompt a line", path.string());
  return lines;
}

}  // namespace fathom
