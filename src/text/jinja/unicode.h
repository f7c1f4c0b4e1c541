// What Python's str methods know about characters: classes and case mappings.
#pragma once

#include <string>

namespace fathom::jinja {

bool is_space(char32_t c);
bool is_line_break(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
inline bool is_alnum(char32_t c) { return is_alpha(c) || is_decimal(c) || is_digit(c) || is_numeric(c); }
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_title(char32_t c);
bool is_cased(char32_t c);
bool is_printable(char32_t c);
// A letter, digit or underscore, as \w of Python's regular expressions.
bool is_word(char32_t c);
bool is_identifier_start(char32_t c);
bool is_identifier_part(char32_t c);
bool is_identifier(std::string_view text);

// Full mappings: one character may become up to three.
std::u32string upper(char32_t c);
std::u32string lower(char32_t c);
std::u32string title(char32_t c);
std::u32string fold(char32_t c);

}  // namespace fathom::jinja
