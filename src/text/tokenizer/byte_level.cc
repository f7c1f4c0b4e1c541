#include "text/tokenizer/byte_level.h"

#include "text/unicode/utf8.h"

namespace fathom {
namespace {

// [code point] -> byte, or -1: the alphabet ends at U+0143.
constexpr std::array<std::int16_t, 0x144> make_char_bytes() {
  std::array<std::int16_t, 0x144> bytes{};
  for (auto& b : bytes) b = -1;
  for (std::size_t byte = 0; byte < 256; ++byte) bytes[kByteChars[byte]] = static_cast<std::int16_t>(byte);
  return bytes;
}
constexpr std::array<std::int16_t, 0x144> kCharBytes = make_char_bytes();

}  // namespace

std::string bytes_to_chars(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char b : bytes) append_utf8(out, kByteChars[static_cast<unsigned char>(b)]);
  return out;
}

bool append_bytes_of_chars(std::string& out, std::string_view chars) {
  const std::size_t before = out.size();
  for (std::size_t at = 0; at < chars.size();) {
    const char32_t c = next_char(chars, at);
    const int byte = c < kCharBytes.size() ? kCharBytes[c] : -1;
    if (byte < 0) {
      out.resize(before);
      return false;
    }
    out += static_cast<char>(byte);
  }
  return true;
}

}  // namespace fathom
