#include "text/unicode/utf8.h"

#include <cstdint>
#include <cstring>
#include <utility>

namespace fathom {
namespace {

bool is_continuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

// The allowed second bytes after a lead byte; an empty interval for a byte that cannot lead.
std::pair<unsigned char, unsigned char> second_bytes(unsigned char lead) {
  if (lead < 0xC2 || lead > 0xF4) return {1, 0};
  if (lead == 0xE0) return {0xA0, 0xBF};
  if (lead == 0xED) return {0x80, 0x9F};
  if (lead == 0xF0) return {0x90, 0xBF};
  if (lead == 0xF4) return {0x80, 0x8F};
  return {0x80, 0xBF};
}

}  // namespace

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

char32_t next_char(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[i])); };
  const char32_t first = byte(at);
  if (first < 0x80) return text[at++];
  const std::size_t i = at;
  at += static_cast<std::size_t>(utf8_length(static_cast<unsigned char>(first)));
  if (first < 0xE0) return ((first & 0x1F) << 6) | (byte(i + 1) & 0x3F);
  if (first < 0xF0) return ((first & 0x0F) << 12) | ((byte(i + 1) & 0x3F) << 6) | (byte(i + 2) & 0x3F);
  return ((first & 0x07) << 18) | ((byte(i + 1) & 0x3F) << 12) | ((byte(i + 2) & 0x3F) << 6) | (byte(i + 3) & 0x3F);
}

char32_t previous_char(std::string_view text, std::size_t& at) {
  do --at;
  while (is_continuation(static_cast<unsigned char>(text[at])));
  std::size_t start = at;
  return next_char(text, start);
}

std::size_t ill_formed_length(std::string_view text, bool& incomplete) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const auto [low, high] = second_bytes(lead);
  incomplete = low <= high && text.size() == 1;
  if (low > high || text.size() == 1) return 1;
  const auto second = static_cast<unsigned char>(text[1]);
  if (second < low || second > high) return 1;
  const auto length = static_cast<std::size_t>(utf8_length(lead));
  std::size_t n = 2;
  while (n < length && n < text.size() && is_continuation(static_cast<unsigned char>(text[n]))) ++n;
  incomplete = n < length && n == text.size();
  return n;
}

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (text.size() - at >= 8) {  // eight plain bytes at once
      std::uint64_t word;
      std::memcpy(&word, text.data() + at, 8);
      if ((word & 0x8080808080808080u) == 0) {
        at += 8;
        continue;
      }
    }
    const auto lead = static_cast<unsigned char>(text[at]);
    if (lead < 0x80) {
      ++at;
      continue;
    }
    bool incomplete = false;
    const std::size_t n = ill_formed_length(text.substr(at, 4), incomplete);
    if (n < 2 || incomplete || n != static_cast<std::size_t>(utf8_length(lead))) return at;
    at += n;
  }
  return at;
}

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t valid = valid_utf8_prefix(text);
    out += text.substr(0, valid);
    text.remove_prefix(valid);
    if (text.empty()) break;
    bool incomplete = false;
    text.remove_prefix(ill_formed_length(text.substr(0, 4), incomplete));
    out += kReplacement;
  }
  return out;
}

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

}  // namespace fathom
