// UTF-8 in and out: characters, borders and what is ill-formed.
#pragma once

#include <string>
#include <string_view>

namespace fathom {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Appends the character.
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
// The text without the byte-order mark that some editors put in front of a file.
std::string_view without_byte_order_mark(std::string_view text);

}  // namespace fathom
