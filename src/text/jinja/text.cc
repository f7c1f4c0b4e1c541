#include "text/jinja/text.h"

#include <algorithm>
#include <cstring>

#include "text/jinja/unicode.h"

namespace fathom::jinja {

std::size_t char_size(std::string_view text, std::size_t pos) {
  const auto lead = static_cast<unsigned char>(text[pos]);
  const std::size_t size = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  return std::min(size, text.size() - pos);
}

char32_t char_at(std::string_view text, std::size_t pos) {
  const auto byte = [&](std::size_t i) -> char32_t { return static_cast<unsigned char>(text[pos + i]); };
  switch (char_size(text, pos)) {
    case 1:
      return byte(0);
    case 2:
      return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
    case 3:
      return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    default:
      return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  }
}

std::size_t count_chars(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

void StrBuilder::mark(std::size_t begin, std::size_t end) {
  if (begin == end) return;
  if (!content_.empty() && content_.back().end == begin) {
    content_.back().end = end;
  } else {
    content_.push_back({begin, end});
  }
}

void StrBuilder::append(std::string_view text, bool content) {
  rt_.scan(text.size());
  const auto limit = static_cast<std::size_t>(limit_ != 0 ? limit_ : rt_.limits().max_bytes);
  if (text.size() > limit - std::min(limit, bytes_.size()))
    rt_.fail("the template makes a text longer than {} MiB", limit >> 20);
  const std::size_t begin = bytes_.size();
  bytes_ += text;
  if (content) mark(begin, bytes_.size());
}

void StrBuilder::append(const Str& text, std::size_t begin, std::size_t end) {
  const std::size_t base = bytes_.size();
  append(text.view().substr(begin, end - begin), false);
  const Span* last = text.content + text.content_count;
  const Span* span =
      std::lower_bound(text.content, last, begin, [](const Span& s, std::size_t b) { return s.end <= b; });
  for (; span != last && span->begin < end; ++span) {
    rt_.step();
    mark(base + std::max(span->begin, begin) - begin, base + std::min(span->end, end) - begin);
  }
}

void StrBuilder::append_for(std::string_view text, const Str& source, std::size_t begin, std::size_t end) {
  append(text, any_content(source, begin, end));
}

Value StrBuilder::finish(bool markup) {
  Str* str = rt_.make<Str>();
  char* data = rt_.allocate_text(bytes_.size());
  if (!bytes_.empty()) std::memcpy(data, bytes_.data(), bytes_.size());
  str->data = data, str->size = bytes_.size(), str->chars = count_chars(bytes_), str->markup = markup;
  if (!content_.empty()) {
    Span* spans = rt_.array<Span>(content_.size());
    std::copy(content_.begin(), content_.end(), spans);
    str->content = spans, str->content_count = content_.size();
  }
  return Value::string(str);
}

Value borrow_str(Runtime& rt, std::string_view text, bool content) {
  Str* str = rt.make<Str>();
  str->data = text.data(), str->size = text.size(), str->chars = count_chars(text);
  if (content && !text.empty()) str->content = rt.make<Span>(Span{0, text.size()}), str->content_count = 1;
  return Value::string(str);
}

Value make_str(Runtime& rt, std::string_view text, bool content) {
  rt.scan(text.size());
  char* data = rt.allocate_text(text.size());
  if (!text.empty()) std::memcpy(data, text.data(), text.size());
  return borrow_str(rt, {data, text.size()}, content);
}

bool any_content(const Str& text, std::size_t begin, std::size_t end) {
  const Span* last = text.content + text.content_count;
  const Span* span =
      std::lower_bound(text.content, last, begin, [](const Span& s, std::size_t b) { return s.end <= b; });
  return span != last && span->begin < end;
}

namespace {

// The spans of [begin, end) of `text`, moved by `shift`, written behind `count` spans of `out`.
std::size_t copy_spans(const Str& text, std::size_t begin, std::size_t end, std::size_t shift, Span* out,
                       std::size_t count) {
  for (std::size_t i = 0; i < text.content_count; ++i) {
    const Span span = text.content[i];
    if (span.end <= begin || span.begin >= end) continue;
    const Span moved{std::max(span.begin, begin) - begin + shift, std::min(span.end, end) - begin + shift};
    if (count != 0 && out[count - 1].end == moved.begin) {
      out[count - 1].end = moved.end;
    } else {
      out[count++] = moved;
    }
  }
  return count;
}

}  // namespace

Value slice_bytes(Runtime& rt, const Str& text, std::size_t begin, std::size_t end) {
  if (begin == 0 && end == text.size) return Value::string(&text);
  rt.scan(end - begin);
  Str* str = rt.make<Str>();
  str->data = text.data + begin, str->size = end - begin, str->markup = text.markup;
  str->chars = text.ascii() ? str->size : count_chars(str->view());
  if (text.content_count != 0 && any_content(text, begin, end)) {
    rt.step(static_cast<i64>(text.content_count));
    Span* spans = rt.array<Span>(text.content_count);
    str->content_count = copy_spans(text, begin, end, 0, spans, 0);
    str->content = spans;
  }
  return Value::string(str);
}

Value concat(Runtime& rt, const Str& a, const Str& b) {
  if (b.size == 0 && !b.markup) return Value::string(&a);
  if (a.size == 0 && !a.markup) return Value::string(&b);
  rt.scan(b.size);
  Str* str = rt.make<Str>();
  str->size = a.size + b.size, str->chars = a.chars + b.chars, str->markup = a.markup || b.markup;
  if (char* tail = rt.extend_text(a.data + a.size, b.size)) {
    std::memcpy(tail, b.data, b.size);
    str->data = a.data;
  } else {
    rt.scan(a.size);
    char* data = rt.allocate_text(str->size);
    std::memcpy(data, a.data, a.size);
    std::memcpy(data + a.size, b.data, b.size);
    str->data = data;
  }
  if (a.content_count + b.content_count != 0) {
    rt.step(static_cast<i64>(a.content_count + b.content_count));
    Span* spans = rt.array<Span>(a.content_count + b.content_count);
    str->content_count = copy_spans(b, 0, b.size, a.size, spans, copy_spans(a, 0, a.size, 0, spans, 0));
    str->content = spans;
  }
  return Value::string(str);
}

Value repeat(Runtime& rt, const Str& text, Int count) {
  if (count <= 0 || text.size == 0) return make_str(rt, "", false);
  if (count > rt.limits().max_bytes / static_cast<Int>(text.size))
    rt.fail("the template makes a text longer than {} MiB", rt.limits().max_bytes >> 20);
  StrBuilder out(rt);
  for (Int i = 0; i < count; ++i) out.append(text);
  return out.finish(text.markup);
}

std::size_t byte_offset(Runtime& rt, const Str& text, std::size_t index) {
  if (text.ascii()) return index;
  std::size_t pos = 0;
  for (std::size_t i = 0; i < index && pos < text.size; ++i) pos += char_size(text.view(), pos);
  rt.scan(pos);
  return pos;
}

Value char_value(Runtime& rt, const Str& text, std::size_t index) {
  const std::size_t begin = byte_offset(rt, text, index);
  return slice_bytes(rt, text, begin, begin + char_size(text.view(), begin));
}

std::size_t find_text(Runtime& rt, std::string_view text, std::string_view needle, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  const std::size_t at = found == nullptr ? std::string_view::npos
                                          : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
  rt.scan(needle.size() + (found == nullptr ? text.size() : at) - from);
  return at;
}

std::size_t rfind_text(Runtime& rt, std::string_view text, std::string_view needle, std::size_t before) {
  text = text.substr(0, before);
  rt.step(1 + static_cast<i64>(text.size() / 8 * std::max<std::size_t>(1, needle.size() / 8)));
  return text.rfind(needle);
}

void each_line(std::string_view text, bool keep, const std::function<void(std::size_t, std::size_t)>& piece) {
  std::size_t begin = 0;
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t size = char_size(text, pos);
    if (!is_line_break(char_at(text, pos))) {
      pos += size;
      continue;
    }
    std::size_t next = pos + size;
    if (text[pos] == '\r' && next < text.size() && text[next] == '\n') ++next;
    piece(begin, keep ? next : pos);
    begin = pos = next;
  }
  if (begin < text.size()) piece(begin, text.size());
}

Span strip_bounds(Runtime& rt, const Str& text, const Str* chars, bool left, bool right) {
  rt.scan(text.size);
  if (chars != nullptr) rt.step(static_cast<i64>(text.size / 16 * (1 + chars->size / 16)));
  const std::string_view view = text.view();
  const auto stripped = [&](std::size_t pos) {
    if (chars == nullptr) return is_space(char_at(view, pos));
    return chars->view().find(view.substr(pos, char_size(view, pos))) != std::string_view::npos;
  };
  std::size_t begin = 0, end = text.size;
  while (left && begin < end && stripped(begin)) begin += char_size(view, begin);
  while (right && begin < end) {
    std::size_t last = end - 1;
    while (last > begin && (static_cast<unsigned char>(view[last]) & 0xC0) == 0x80) --last;
    if (!stripped(last)) break;
    end = last;
  }
  return {begin, end};
}

}  // namespace fathom::jinja
