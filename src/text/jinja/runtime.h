// What one rendering may spend (memory, steps, depth), the memory itself, and errors with their place in the template.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"

namespace fathom::jinja {

// Bounds that keep a hostile template from hanging, overflowing the stack or filling the memory.
struct Limits {
  i64 max_steps = 10'000'000;      // nodes evaluated, items iterated, 64-byte blocks of text touched
  i64 max_bytes = i64{512} << 20;  // all values made during one rendering
  i64 max_output = i64{64} << 20;  // bytes of the rendered text
  i64 max_range = 100'000;         // items of a range(), as Jinja's sandbox has it
  int max_depth = 1500;            // nested evaluations: expressions, statements, macro calls, nested values
};

// A failure at a place of a template. `raised()` tells that the template itself called raise_exception.
class TemplateError : public Error {
 public:
  TemplateError(const std::string& text, int line, int column, bool raised = false)
      : Error(fmt::format("chat template, line {}, column {}: {}", line, column, text)),
        text_(text),
        line_(line),
        column_(column),
        raised_(raised) {}
  const std::string& text() const { return text_; }
  int line() const { return line_; }
  int column() const { return column_; }
  bool raised() const { return raised_; }

 private:
  std::string text_;
  int line_, column_;
  bool raised_;
};

// Throws TemplateError for the byte offset `pos` of `source`.
[[noreturn]] void fail_at(std::string_view source, std::size_t pos, const std::string& text, bool raised = false);

// Memory, budget and current place of one rendering. Everything allocated here lives until the Runtime dies; nothing
// has a destructor to run, so cyclic and deeply nested values need no care.
class Runtime {
 public:
  Runtime(const Limits& limits, std::string_view source) : limits_(limits), source_(source) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Uninitialised memory aligned for any value; fails when the memory limit is passed.
  void* allocate(std::size_t bytes);

  template <typename T, typename... Args>
  T* make(Args&&... args) {
    static_assert(std::is_trivially_destructible_v<T>);
    return new (allocate(sizeof(T))) T(std::forward<Args>(args)...);
  }

  // `count` default-made elements.
  template <typename T>
  T* array(std::size_t count) {
    static_assert(std::is_trivially_destructible_v<T>);
    T* items = static_cast<T*>(allocate(sizeof(T) * count));
    for (std::size_t i = 0; i < count; ++i) new (items + i) T();
    return items;
  }

  // Uninitialised room for text, apart from other values so that the newest text can grow in place.
  char* allocate_text(std::size_t bytes);

  // Room for `more` bytes right behind `end`, when `end` is where the newest text stopped; else null.
  char* extend_text(const char* end, std::size_t more);

  void step(i64 count = 1) {
    steps_ += count;
    if (steps_ > limits_.max_steps) [[unlikely]]
      fail_steps();
  }
  // Accounts for work over `bytes` bytes of text.
  void scan(std::size_t bytes) { step(1 + static_cast<i64>(bytes / 64)); }

  // The text that places of errors refer to.
  void set_source(std::string_view source) { source_ = source; }

  // The time that strftime_now() tells; null for the machine's clock.
  const std::tm* now = nullptr;

  void at(std::uint32_t pos) { pos_ = pos; }
  std::uint32_t pos() const { return pos_; }
  const Limits& limits() const { return limits_; }

  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    fail_text(fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void fail_text(const std::string& text, bool raised = false) const;

  // One level of nesting for as long as it lives.
  class Nest {
   public:
    explicit Nest(Runtime& rt) : rt_(rt) {
      if (++rt.depth_ > rt.limits_.max_depth) rt.fail_depth();
    }
    ~Nest() { --rt_.depth_; }
    Nest(const Nest&) = delete;
    Nest& operator=(const Nest&) = delete;

   private:
    Runtime& rt_;
  };

 private:
  [[noreturn]] void fail_steps() const;
  [[noreturn]] void fail_depth();

  struct Region {
    std::byte* cursor = nullptr;
    std::byte* end = nullptr;
  };
  // Takes `bytes` from the region, opening a new chunk when it is full.
  std::byte* take(Region& region, std::size_t bytes);

  Limits limits_;
  std::string_view source_;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  Region objects_, texts_;
  i64 used_ = 0;
  i64 steps_ = 0;
  int depth_ = 0;
  std::uint32_t pos_ = 0;
};

}  // namespace fathom::jinja
