// Python's two ways of formatting: "%s" % value and "{}".format(value).
#pragma once

#include <string>

#include "text/jinja/method.h"
#include "text/jinja/text.h"

namespace fathom::jinja {

// text % value; tuples give several arguments, dictionaries named ones.
Value percent_format(Runtime& rt, const Str& text, const Value& value);
// text.format(*items, **named).
Value brace_format(Runtime& rt, const Str& text, const Arguments& arguments);

// One conversion: [[fill]align][sign][#][0][width][,_][.precision][type].
struct FormatSpec {
  bool given = false;  // anything at all
  std::string fill = " ";
  char align = '\0';  // < > ^ =, or none
  char sign = '-';
  bool alternate = false;
  char grouping = '\0';
  i64 width = 0;
  i64 precision = -1;
  char type = '\0';
};

FormatSpec parse_spec(Runtime& rt, std::string_view text);
// The value written by the specification, added to `out`.
void append_formatted(StrBuilder& out, Runtime& rt, const Value& value, const FormatSpec& spec);

// Parts shared by both: digits of numbers, and padding to a width.
std::string format_integer(Int value, char type, bool alternate);
std::string format_real(double value, char type, i64 precision, bool alternate);
// `text` (sign first) padded to the width; '=' pads between sign and digits.
void append_padded(StrBuilder& out, Runtime& rt, const Str& text, const FormatSpec& spec);

}  // namespace fathom::jinja
