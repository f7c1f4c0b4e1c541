// Text with provenance: building, slicing by code points, searching. Every byte keeps its origin.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace fathom::jinja {

// Builds one string piece by piece, keeping which bytes came from content.
class StrBuilder {
 public:
  explicit StrBuilder(Runtime& rt, i64 limit = 0) : rt_(rt), limit_(limit) {}

  void append(std::string_view text, bool content = false);
  void append(const Str& text) { append(text, 0, text.size); }
  // The bytes [begin, end) of `text`, with their origins.
  void append(const Str& text, std::size_t begin, std::size_t end);
  // `text` as a replacement for the bytes [begin, end) of `source`: content if any of them is.
  void append_for(std::string_view text, const Str& source, std::size_t begin, std::size_t end);

  std::size_t size() const { return bytes_.size(); }
  std::string_view bytes() const { return bytes_; }
  const std::vector<Span>& content() const { return content_; }
  Value finish(bool markup = false);

 private:
  void mark(std::size_t begin, std::size_t end);

  Runtime& rt_;
  i64 limit_;  // bytes; 0 for the memory limit of the rendering
  std::string bytes_;
  std::vector<Span> content_;
};

// A string value copied into the rendering's memory.
Value make_str(Runtime& rt, std::string_view text, bool content);
// A string value over bytes that outlive the rendering.
Value borrow_str(Runtime& rt, std::string_view text, bool content);

// The bytes [begin, end), sharing the text's memory. Both must be at code point borders.
Value slice_bytes(Runtime& rt, const Str& text, std::size_t begin, std::size_t end);
// a followed by b; grows `a` in place when it is the newest text of the rendering.
Value concat(Runtime& rt, const Str& a, const Str& b);
// `text` repeated, as Python's `text * count`.
Value repeat(Runtime& rt, const Str& text, Int count);

// Whether any byte of [begin, end) is content.
bool any_content(const Str& text, std::size_t begin, std::size_t end);
inline bool any_content(const Str& text) { return text.content_count != 0; }

// Bytes of the code point at `pos`; decoding never leaves the text.
std::size_t char_size(std::string_view text, std::size_t pos);
char32_t char_at(std::string_view text, std::size_t pos);
std::size_t count_chars(std::string_view text);
// The byte offset of code point number `index` (at most the number of code points).
std::size_t byte_offset(Runtime& rt, const Str& text, std::size_t index);
// The one-character string at code point `index`.
Value char_value(Runtime& rt, const Str& text, std::size_t index);

// The first place of `needle` at or after `from`, in linear time; npos if none.
std::size_t find_text(Runtime& rt, std::string_view text, std::string_view needle, std::size_t from);
std::size_t rfind_text(Runtime& rt, std::string_view text, std::string_view needle, std::size_t before);

// Calls `piece(begin, end)` for every line as Python's splitlines cuts them; `keep` leaves the line ends on.
void each_line(std::string_view text, bool keep, const std::function<void(std::size_t, std::size_t)>& piece);

// The bounds left by stripping: whitespace when `chars` is null, else any of the code points in it.
Span strip_bounds(Runtime& rt, const Str& text, const Str* chars, bool left, bool right);

}  // namespace fathom::jinja
