// Errors. Library code throws Error; only the tools print it and exit.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace fathom {

using i64 = std::int64_t;

// A failure with one clear line for the person at the keyboard (what, where, which value, what to do).
// `where()` keeps the source place and the condition for developers; it is not part of the message.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, std::string where = {})
      : std::runtime_error(message), where_(std::move(where)) {}
  const std::string& where() const { return where_; }

 private:
  std::string where_;
};

// Wrong use of a command: exit code 2 instead of 1.
class UsageError : public Error {
 public:
  using Error::Error;
};

// A device that this process cannot use any more: whatever is run on it from now on fails too.
class DeviceLost : public Error {
 public:
  using Error::Error;
};

// Throws Error with the formatted message.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace fathom

// CHECK(condition, "message with {}", values...): always on; for the caller's mistakes and for bad input.
#define CHECK(condition, ...)                                                                                        \
  do {                                                                                                               \
    if (!(condition)) [[unlikely]]                                                                                   \
      throw ::fathom::Error(::fmt::format(__VA_ARGS__), ::fmt::format("{}:{}: {}", __FILE__, __LINE__, #condition)); \
  } while (false)
