#include "text/jinja/format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/jinja/ops.h"
#include "text/jinja/repr.h"
#include "text/jinja/unicode.h"
#include "text/unicode/utf8.h"

namespace fathom::jinja {

namespace {

constexpr i64 kMaxDigits = 1000;  // of a precision or a run of zeros in a number

i64 read_number(Runtime& rt, std::string_view text, std::size_t& pos) {
  i64 value = 0;
  while (pos < text.size() && text[pos] >= '0' && text[pos] <= '9') {
    value = value * 10 + (text[pos++] - '0');
    if (value > rt.limits().max_bytes) rt.fail("the width or precision of a format is too large");
  }
  return value;
}

}  // namespace

std::string format_integer(Int value, char type, bool alternate) {
  const bool negative = value < 0;
  unsigned base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
  const std::string_view alphabet = type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string digits;
  __extension__ unsigned __int128 rest =
      negative ? -static_cast<unsigned __int128>(value) : static_cast<unsigned __int128>(value);
  do {
    digits += alphabet[static_cast<std::size_t>(rest % base)];
    rest /= base;
  } while (rest != 0);
  if (alternate && base != 10) digits += type, digits += '0';
  if (negative) digits += '-';
  return {digits.rbegin(), digits.rend()};
}

std::string format_real(double value, char type, i64 precision, bool alternate) {
  if (!std::isfinite(value)) {
    std::string text = std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
    if (type >= 'A' && type <= 'Z')
      std::transform(text.begin(), text.end(), text.begin(),
                     [](char c) { return c >= 'a' ? static_cast<char>(c - 32) : c; });
    return text;
  }
  const char format[] = {
      '%', alternate ? '#' : '.', alternate ? '.' : '*', alternate ? '*' : type, alternate ? type : '\0', '\0'};
  const int digits = static_cast<int>(precision < 0 ? 6 : precision);
  const int size = std::snprintf(nullptr, 0, format, digits, value);
  std::string out(static_cast<std::size_t>(size) + 1, '\0');
  std::snprintf(out.data(), out.size(), format, digits, value);
  out.pop_back();
  return out;
}

FormatSpec parse_spec(Runtime& rt, std::string_view text) {
  constexpr std::string_view kAligns = "<>^=";
  FormatSpec spec;
  spec.given = !text.empty();
  std::size_t pos = 0;
  bool fill_given = false;
  if (!text.empty()) {
    const std::size_t first = char_size(text, 0);
    if (first < text.size() && kAligns.find(text[first]) != kAligns.npos) {
      spec.fill = text.substr(0, first), spec.align = text[first], pos = first + 1, fill_given = true;
    } else if (kAligns.find(text[0]) != kAligns.npos) {
      spec.align = text[0], pos = 1;
    }
  }
  const auto at = [&](char c) { return pos < text.size() && text[pos] == c; };
  if (at('+') || at('-') || at(' ')) spec.sign = text[pos++];
  if (at('#')) spec.alternate = true, ++pos;
  if (at('0')) {
    ++pos;
    if (!fill_given) spec.fill = "0";
    if (spec.align == '\0') spec.align = '=';
  }
  spec.width = read_number(rt, text, pos);
  if (at(',') || at('_')) spec.grouping = text[pos++];
  if (at('.')) {
    const std::size_t begin = ++pos;
    spec.precision = read_number(rt, text, pos);
    if (pos == begin) rt.fail("Format specifier missing precision");
  }
  if (pos < text.size()) spec.type = text[pos++];
  if (pos != text.size()) rt.fail("Invalid format specifier '{}'", text);
  return spec;
}

void append_padded(StrBuilder& out, Runtime& rt, const Str& text, const FormatSpec& spec) {
  const i64 missing = spec.width - static_cast<i64>(text.chars);
  if (missing <= 0) return out.append(text);
  const i64 left = spec.align == '<' ? 0 : spec.align == '^' ? missing / 2 : missing;
  const auto pad = [&](i64 count) {
    for (i64 i = 0; i < count; ++i) rt.step(), out.append(spec.fill);
  };
  if (spec.align == '=') {
    std::size_t head = text.size != 0 && (text.data[0] == '-' || text.data[0] == '+' || text.data[0] == ' ') ? 1 : 0;
    if (text.size > head + 1 && text.data[head] == '0' && is_alpha(static_cast<unsigned char>(text.data[head + 1])))
      head += 2;
    out.append(text, 0, head);
    pad(missing);
    return out.append(text, head, text.size);
  }
  pad(left);
  out.append(text);
  pad(missing - left);
}

namespace {

// Puts the grouping mark between every three digits of the whole part.
std::string grouped(const std::string& digits, char mark) {
  if (mark == '\0') return digits;
  const std::size_t begin = digits.find_first_of("0123456789");
  if (begin == digits.npos) return digits;
  std::size_t end = digits.find_first_not_of("0123456789", begin);
  if (end == digits.npos) end = digits.size();
  std::string out = digits.substr(0, begin);
  for (std::size_t i = begin; i < end; ++i) {
    if (i != begin && (end - i) % 3 == 0) out += mark;
    out += digits[i];
  }
  return out + digits.substr(end);
}

std::string real_text(Runtime& rt, double value, const FormatSpec& spec) {
  if (spec.precision > kMaxDigits) rt.fail("a format precision above {} digits", kMaxDigits);
  switch (spec.type) {
    case '\0':
      if (spec.precision < 0) return float_text(value);
      break;
    case '%':
      return format_real(value * 100, 'f', spec.precision, spec.alternate) + "%";
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      return format_real(value, spec.type, spec.precision, spec.alternate);
    case 'n':
      return format_real(value, 'g', spec.precision, spec.alternate);
    default:
      rt.fail("Unknown format code '{}' for object of type 'float'", spec.type);
  }
  // No type but a precision: like g, with at least one digit after the point.
  std::string text = format_real(value, 'g', spec.precision, false);
  if (text.find_first_of(".en") == text.npos) text += ".0";
  return text;
}

void append_number(StrBuilder& out, Runtime& rt, const Value& value, FormatSpec spec) {
  constexpr std::string_view kRealTypes = "eEfFgG%";
  std::string text;
  if (value.is(Kind::kFloat) || (spec.type != '\0' && kRealTypes.find(spec.type) != kRealTypes.npos)) {
    text = real_text(rt, as_double(rt, value), spec);
  } else if (spec.type == 'c') {
    const Int code = value.as_int();
    if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) rt.fail("%c arg not in range(0x110000)");
    append_utf8(text, static_cast<char32_t>(code));
  } else {
    constexpr std::string_view kIntTypes = "dnxXob";
    if (spec.type != '\0' && kIntTypes.find(spec.type) == kIntTypes.npos)
      rt.fail("Unknown format code '{}' for object of type 'int'", spec.type);
    if (spec.precision >= 0) rt.fail("Precision not allowed in integer format specifier");
    if (spec.grouping == ',' && spec.type != '\0' && spec.type != 'd')
      rt.fail("Cannot specify ',' with '{}'.", spec.type);
    text = format_integer(value.as_int(), spec.type, spec.alternate);
  }
  text = grouped(text, spec.grouping);
  if (spec.sign != '-' && text[0] != '-') text.insert(text.begin(), spec.sign);
  if (spec.align == '\0') spec.align = '>';
  append_padded(out, rt, *make_str(rt, text, value.content).str, spec);
}

}  // namespace

void append_formatted(StrBuilder& out, Runtime& rt, const Value& value, const FormatSpec& spec) {
  if (value.is_number() && (spec.given || !value.is(Kind::kBool))) return append_number(out, rt, value, spec);
  FormatSpec plain = spec;
  if (!value.is_string() && !value.is(Kind::kBool)) {
    if (spec.given) rt.fail("unsupported format string passed to {}.__format__", type_name(value));
    return append_str(out, rt, value);
  }
  if (spec.type != '\0' && spec.type != 's')
    rt.fail("Unknown format code '{}' for object of type '{}'", spec.type, type_name(value));
  if (spec.grouping != '\0') rt.fail("Cannot specify '{}' with 's'.", spec.grouping);
  if (spec.sign != '-') rt.fail("Sign not allowed in string format specifier");
  if (spec.alternate) rt.fail("Alternate form (#) not allowed in string format specifier");
  if (spec.align == '=') {
    if (spec.fill != "0") rt.fail("'=' alignment not allowed in string format specifier");
    plain.align = '<';
  }
  if (spec.align == '\0') plain.align = '<';
  const Str* text = to_str(rt, value).str;
  if (spec.precision >= 0 && spec.precision < static_cast<i64>(text->chars))
    text = slice_bytes(rt, *text, 0, byte_offset(rt, *text, static_cast<std::size_t>(spec.precision))).str;
  append_padded(out, rt, *text, plain);
}

}  // namespace fathom::jinja
