#include "tools/input.h"

#include <errno.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/check.h"

namespace fathom {
namespace {

[[noreturn]] void fail_read() { fail("cannot read standard input: {}", std::strerror(errno)); }

}  // namespace

std::optional<std::string> read_input_line() {
  char* buffer = nullptr;
  std::size_t capacity = 0;
  const ssize_t length = ::getline(&buffer, &capacity, stdin);
  const std::unique_ptr<char, void (*)(void*)> owner(buffer, std::free);
  if (length < 0) {
    if (std::ferror(stdin) != 0 && errno != EINTR) fail_read();
    return std::nullopt;
  }
  std::string line(buffer, static_cast<std::size_t>(length));
  if (line.back() == '\n') line.pop_back();
  return line;
}

std::string read_input() {
  std::string text;
  char piece[1 << 16];
  while (const std::size_t got = std::fread(piece, 1, sizeof piece, stdin)) text.append(piece, got);
  if (std::ferror(stdin) != 0) fail_read();
  return text;
}

}  // namespace fathom
