#include "text/unicode/classes.h"

#include <algorithm>
#include <iterator>

#include "text/unicode/utf8.h"

namespace fathom {
namespace {

#include "text/unicode/tables.inc"

constexpr CodePointRange kSpace[] = {{0x9, 0xD},       {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                                     {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                                     {0x205F, 0x205F}, {0x3000, 0x3000}};

bool in_ranges(std::span<const CodePointRange> ranges, char32_t c) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), c,
                                      [](char32_t value, const CodePointRange& range) { return value < range.first; });
  return after != ranges.begin() && c <= std::prev(after)->last;
}

}  // namespace

Category category(char32_t c) {
  const std::span<const std::uint32_t> starts = kCategoryStarts;
  const auto after = std::upper_bound(starts.begin(), starts.end(), (static_cast<std::uint32_t>(c) << 8) | 0xFF);
  return static_cast<Category>(*std::prev(after) & 0xFF);
}

char major_category(Category c) { return "CCCCCLLLLLMMMNNNPPPPPPPSSSSZZZ"[static_cast<int>(c)]; }

std::span<const std::uint32_t> category_starts() { return kCategoryStarts; }
std::span<const CodePointRange> alphabetic_ranges() { return kAlphabetic; }
std::span<const CodePointRange> han_ranges() { return kHan; }
std::span<const CodePointRange> space_ranges() { return kSpace; }

bool is_space(char32_t c) { return c < 0x80 ? c == ' ' || (c >= 9 && c <= 13) : in_ranges(kSpace, c); }
bool is_word(char32_t c) { return in_ranges(kWord, c); }
bool is_numeric(char32_t c) { return in_ranges(kNumeric, c); }
bool is_punctuation(char32_t c) { return in_ranges(kPunctuation, c); }
bool is_accent(char32_t c) { return in_ranges(kAccents, c); }

bool has_recent_characters(std::string_view text) {
  const char32_t lowest = kRecent[0].first;
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0xE0) {
      ++at;  // below U+0800 nothing is recent; continuation bytes pass here as well
      continue;
    }
    const char32_t c = next_char(text, at);
    if (c >= lowest && in_ranges(kRecent, c)) return true;
  }
  return false;
}

void append_lower(std::string& out, char32_t c) {
  if (c == 0x130) {
    out += "i\xCC\x87";
    return;
  }
  const std::span<const CodePointRange> pairs = kLowercase;
  const auto found = std::lower_bound(pairs.begin(), pairs.end(), c,
                                      [](const CodePointRange& pair, char32_t value) { return pair.first < value; });
  append_utf8(out, found != pairs.end() && found->first == c ? found->last : c);
}

}  // namespace fathom
