// Character classes as the Rust tokenizers library has them.
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

}  // namespace fathom
