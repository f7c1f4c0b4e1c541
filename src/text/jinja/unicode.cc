#include "text/jinja/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <span>

#include "text/jinja/text.h"
#include "text/jinja/unicode_tables.h"

namespace fathom::jinja {

namespace {

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

bool in_ranges(char32_t c, std::span<const CharRange> ranges) {
  const auto it = std::lower_bound(ranges.begin(), ranges.end(), c,
                                   [](const CharRange& range, char32_t x) { return range.last < x; });
  return it != ranges.end() && it->first <= c;
}

const CaseRow* find_row(char32_t c, std::span<const CaseRow> rows) {
  const auto it =
      std::lower_bound(rows.begin(), rows.end(), c, [](const CaseRow& row, char32_t x) { return row.from < x; });
  return it != rows.end() && it->from == c ? &*it : nullptr;
}

std::u32string to_string(const CaseRow& row) {
  std::u32string out;
  for (const char32_t c : row.to)
    if (c != 0) out += c;
  return out;
}

std::u32string one(utf8proc_int32_t c) { return std::u32string(1, static_cast<char32_t>(c)); }

}  // namespace

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || category(c) == UTF8PROC_CATEGORY_ZS || c == 0x2028 || c == 0x2029;
}

bool is_line_break(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_alpha(char32_t c) {
  if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  const auto cat = category(c);
  return cat >= UTF8PROC_CATEGORY_LU && cat <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) { return c < 0x80 ? c >= '0' && c <= '9' : category(c) == UTF8PROC_CATEGORY_ND; }
bool is_digit(char32_t c) { return is_decimal(c) || in_ranges(c, kDigitRanges); }

bool is_numeric(char32_t c) {
  if (c < 0x80) return is_decimal(c);
  const auto cat = category(c);
  return (cat >= UTF8PROC_CATEGORY_ND && cat <= UTF8PROC_CATEGORY_NO) || in_ranges(c, kNumeralRanges);
}

bool is_upper(char32_t c) { return utf8proc_isupper(static_cast<utf8proc_int32_t>(c)) != 0; }
bool is_lower(char32_t c) { return utf8proc_islower(static_cast<utf8proc_int32_t>(c)) != 0; }
bool is_title(char32_t c) { return c >= 0x80 && category(c) == UTF8PROC_CATEGORY_LT; }
bool is_cased(char32_t c) { return is_upper(c) || is_lower(c) || is_title(c); }

bool is_printable(char32_t c) {
  if (c < 0x80) return c >= 0x20 && c < 0x7F;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

bool is_word(char32_t c) { return c == '_' || is_alnum(c); }

bool is_identifier_start(char32_t c) {
  return c == '_' || is_alpha(c) || (c >= 0x80 && category(c) == UTF8PROC_CATEGORY_NL);
}

bool is_identifier_part(char32_t c) {
  if (is_identifier_start(c) || is_decimal(c)) return true;
  if (c < 0x80) return false;
  const auto cat = category(c);
  return cat == UTF8PROC_CATEGORY_MN || cat == UTF8PROC_CATEGORY_MC || cat == UTF8PROC_CATEGORY_PC;
}

bool is_identifier(std::string_view text) {
  if (text.empty() || !is_identifier_start(char_at(text, 0))) return false;
  for (std::size_t pos = 0; pos < text.size(); pos += char_size(text, pos))
    if (!is_identifier_part(char_at(text, pos))) return false;
  return true;
}

std::u32string upper(char32_t c) {
  if (const CaseRow* row = find_row(c, kUpperRows)) return to_string(*row);
  return one(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}

std::u32string lower(char32_t c) {
  if (c == 0x130) return U"i\u0307";
  return one(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

std::u32string title(char32_t c) {
  if (const CaseRow* row = find_row(c, kTitleRows)) return to_string(*row);
  if (const CaseRow* row = find_row(c, kUpperRows)) return to_string(*row);
  return one(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}

std::u32string fold(char32_t c) {
  utf8proc_int32_t out[8];
  int last_class = 0;
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), out, 8, UTF8PROC_CASEFOLD, &last_class);
  if (count <= 0 || count > 8) return std::u32string(1, c);
  std::u32string folded;
  for (int i = 0; i < count; ++i) folded += static_cast<char32_t>(out[i]);
  return folded;
}

}  // namespace fathom::jinja
