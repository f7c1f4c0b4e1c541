// Unicode for text processing: UTF-8 in and out, character classes as the Rust tokenizers library has them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace fathom {

// General categories, in the order of scripts/dev/unicode_tables.py.
enum class Category : std::uint8_t {
  Cn,
  Cc,
  Cf,
  Co,
  Cs,
  Lu,
  Ll,
  Lt,
  Lm,
  Lo,
  Mn,
  Mc,
  Me,
  Nd,
  Nl,
  No,
  Pc,
  Pd,
  Ps,
  Pe,
  Pi,
  Pf,
  Po,
  Sm,
  Sc,
  Sk,
  So,
  Zs,
  Zl,
  Zp
};
inline constexpr int kCategories = 30;
inline constexpr char32_t kCodePoints = 0x110000;
inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// First and last code point of a stretch.
struct CodePointRange {
  char32_t first, last;
};

Category category(char32_t c);
// The letter of the main class: 'L', 'M', 'N', 'P', 'S', 'Z' or 'C'.
char major_category(Category c);
// Code points where a category begins, ascending: code point << 8 | category.
std::span<const std::uint32_t> category_starts();

std::span<const CodePointRange> alphabetic_ranges();
std::span<const CodePointRange> han_ranges();
// White_Space, as `\s` and Rust's char::is_whitespace.
std::span<const CodePointRange> space_ranges();

bool is_space(char32_t c);
// `\w` of Rust's regex crate.
bool is_word(char32_t c);
// Rust's char::is_numeric.
bool is_numeric(char32_t c);
// What the pre-tokenizer Punctuation cuts out.
bool is_punctuation(char32_t c);
// What the normalizer StripAccents drops.
bool is_accent(char32_t c);
// True if a character of the text was assigned after Unicode 14, which PCRE2 of this age does not know.
bool has_recent_characters(std::string_view text);
// Appends the lower case of one character (two characters for U+0130).
void append_lower(std::string& out, char32_t c);

void append_utf8(std::string& out, char32_t c);
// Bytes of the character that begins with this byte in valid UTF-8.
inline int utf8_length(unsigned char first) { return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4; }
// The character at `at`, which is moved past it. The text must be valid UTF-8.
char32_t next_char(std::string_view text, std::size_t& at);
// The character that ends at `at`, which is moved to its start. The text must be valid UTF-8.
char32_t previous_char(std::string_view text, std::size_t& at);
// Length of the longest valid prefix.
std::size_t valid_utf8_prefix(std::string_view text);
inline bool is_valid_utf8(std::string_view text) { return valid_utf8_prefix(text) == text.size(); }
// Bytes at the front (0 < n <= 3) that form one maximal ill-formed part; `incomplete` when more bytes could complete
// them.
std::size_t ill_formed_length(std::string_view text, bool& incomplete);
// A copy in which each maximal ill-formed part is one U+FFFD.
std::string to_valid_utf8(std::string_view text);

}  // namespace fathom
