#include "text/jinja/case.h"

#include <utf8proc.h>

#include "text/jinja/unicode.h"
#include "text/unicode/utf8.h"

namespace fathom::jinja {

namespace {

// Rewrites the bytes [begin, end) of `text` character by character with map(position, character).
template <typename Map>
void map_chars(StrBuilder& out, Runtime& rt, const Str& text, std::size_t begin, std::size_t end, const Map& map) {
  const std::string_view view = text.view();
  for (std::size_t pos = begin; pos < end;) {
    const std::size_t size = char_size(view, pos);
    std::string mapped;
    for (const char32_t c : map(pos, char_at(view, pos))) append_utf8(mapped, c);
    out.append_for(mapped, text, pos, pos + size);
    pos += size;
  }
  rt.scan(end - begin);
}

bool is_case_ignorable(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return c == '\'' || c == '.' || c == ':' || c == 0xB7 || c == 0x387 || c == 0x55F || c == 0x5F4 || c == 0x2018 ||
             c == 0x2019 || c == 0x2024 || c == 0x2027 || c == 0xFE13 || c == 0xFE52 || c == 0xFE55 || c == 0xFF07 ||
             c == 0xFF0E || c == 0xFF1A;
  }
}

// Whether the capital sigma at `pos` ends a word: a letter before it, none after it, looking past marks.
bool final_sigma(std::string_view view, std::size_t pos) {
  std::size_t before = pos;
  bool letter_before = false;
  while (before > 0 && !letter_before) {
    do --before;
    while (before > 0 && (static_cast<unsigned char>(view[before]) & 0xC0) == 0x80);
    const char32_t c = char_at(view, before);
    if (is_case_ignorable(c)) continue;
    letter_before = is_cased(c);
    break;
  }
  if (!letter_before) return false;
  for (std::size_t after = pos + 2; after < view.size(); after += char_size(view, after)) {
    const char32_t c = char_at(view, after);
    if (!is_case_ignorable(c)) return !is_cased(c);
  }
  return true;
}

void append_lower(StrBuilder& out, Runtime& rt, const Str& text, std::size_t begin, std::size_t end) {
  const std::string_view view = text.view();
  map_chars(out, rt, text, begin, end, [&](std::size_t pos, char32_t c) {
    return c == 0x3A3 && final_sigma(view, pos) ? std::u32string(1, 0x3C2) : lower(c);
  });
}

}  // namespace

Value to_upper(Runtime& rt, const Str& text) {
  StrBuilder out(rt);
  map_chars(out, rt, text, 0, text.size, [](std::size_t, char32_t c) { return upper(c); });
  return out.finish(text.markup);
}

Value to_lower(Runtime& rt, const Str& text) {
  StrBuilder out(rt);
  append_lower(out, rt, text, 0, text.size);
  return out.finish(text.markup);
}

Value to_title(Runtime& rt, const Str& text) {
  StrBuilder out(rt);
  bool in_word = false;
  map_chars(out, rt, text, 0, text.size, [&](std::size_t pos, char32_t c) {
    std::u32string mapped = !in_word                                      ? title(c)
                            : c == 0x3A3 && final_sigma(text.view(), pos) ? std::u32string(1, 0x3C2)
                                                                          : lower(c);
    in_word = is_cased(c);
    return mapped;
  });
  return out.finish(text.markup);
}

Value capitalize(Runtime& rt, const Str& text) {
  StrBuilder out(rt);
  if (text.size != 0) {
    const std::size_t first = char_size(text.view(), 0);
    map_chars(out, rt, text, 0, first, [](std::size_t, char32_t c) { return title(c); });
    append_lower(out, rt, text, first, text.size);
  }
  return out.finish(text.markup);
}

Value swap_case(Runtime& rt, const Str& text) {
  StrBuilder out(rt);
  map_chars(out, rt, text, 0, text.size, [&](std::size_t pos, char32_t c) {
    if (is_lower(c)) return upper(c);
    if (c == 0x3A3 && final_sigma(text.view(), pos)) return std::u32string(1, 0x3C2);
    return is_upper(c) ? lower(c) : std::u32string(1, c);
  });
  return out.finish(text.markup);
}

Value case_fold(Runtime& rt, const Str& text) {
  StrBuilder out(rt);
  map_chars(out, rt, text, 0, text.size, [](std::size_t, char32_t c) { return fold(c); });
  return out.finish(text.markup);
}

}  // namespace fathom::jinja
