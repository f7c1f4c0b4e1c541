// The byte-level alphabet: every byte has a printable character, and texts of these stand for bytes.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace fathom {

// Bytes that are their own character (as Latin-1); the others follow from U+0100 on, in order.
constexpr bool is_own_byte_char(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// [byte] -> code point.
constexpr std::array<char16_t, 256> make_byte_chars() {
  std::array<char16_t, 256> chars{};
  int next = 256;
  for (int byte = 0; byte < 256; ++byte)
    chars[static_cast<std::size_t>(byte)] = static_cast<char16_t>(is_own_byte_char(byte) ? byte : next++);
  return chars;
}
inline constexpr std::array<char16_t, 256> kByteChars = make_byte_chars();

// The bytes as characters of the alphabet.
std::string bytes_to_chars(std::string_view bytes);
// Appends the bytes that the characters stand for; false (and nothing appended) if one is outside the alphabet.
bool append_bytes_of_chars(std::string& out, std::string_view chars);

}  // namespace fathom
