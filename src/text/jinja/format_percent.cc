#include "text/jinja/format.h"

#include <algorithm>

#include "text/jinja/ops.h"
#include "text/jinja/repr.h"

namespace fathom::jinja {

namespace {

// Reads one format string from left to right, taking arguments as it goes.
class Percent {
 public:
  Percent(Runtime& rt, const Str& text, const Value& value) : rt_(rt), text_(text), value_(value), out_(rt) {}

  Value run() {
    const std::string_view view = text_.view();
    for (std::size_t begin = 0; begin < view.size();) {
      const std::size_t mark = std::min(view.find('%', begin), view.size());
      out_.append(text_, begin, mark);
      if (mark == view.size()) break;
      pos_ = mark + 1;
      conversion(mark);
      begin = pos_;
    }
    const bool all_used = value_.is(Kind::kTuple) ? used_ >= value_.list->size : used_ > 0 || mapping();
    if (!all_used) rt_.fail("not all arguments converted during string formatting");
    return out_.finish(text_.markup);
  }

 private:
  // Anything with elements by key may stay unused: Python takes it for the mapping of named conversions.
  bool mapping() const {
    return value_.is(Kind::kDict) || value_.is(Kind::kList) || value_.is(Kind::kRange) || value_.is(Kind::kUndefined);
  }

  char peek() const {
    if (pos_ >= text_.size) rt_.fail("incomplete format");
    return text_.data[pos_];
  }

  Value next_argument() {
    if (value_.is(Kind::kTuple)) {
      if (used_ >= value_.list->size) rt_.fail("not enough arguments for format string");
      return (*value_.list)[used_++];
    }
    if (used_ > 0) rt_.fail("not enough arguments for format string");
    ++used_;
    return value_;
  }

  Value named_argument() {
    const std::size_t begin = ++pos_;
    for (int open = 1; open > 0; ++pos_) {
      if (pos_ >= text_.size) rt_.fail("incomplete format key");
      open += peek() == '(' ? 1 : peek() == ')' ? -1 : 0;
    }
    const Value key = slice_bytes(rt_, text_, begin, pos_ - 1);
    if (!value_.is(Kind::kDict)) rt_.fail("format requires a mapping");
    const Value* found = value_.dict->find(rt_, key);
    if (found == nullptr) rt_.fail("no value for the format key '{}'", key.str->view());
    ++used_;
    return *found;
  }

  i64 number_or_star() {
    if (peek() == '*') {
      ++pos_;
      const Int value = as_index(rt_, next_argument());
      if (value > rt_.limits().max_bytes || value < -rt_.limits().max_bytes)
        rt_.fail("the width of a format is too large");
      return static_cast<i64>(value);
    }
    i64 value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++pos_) {
      value = value * 10 + (peek() - '0');
      if (value > rt_.limits().max_bytes) rt_.fail("the width of a format is too large");
    }
    return value;
  }

  void conversion(std::size_t mark) {
    Value argument;
    if (peek() == '(') argument = named_argument();
    FormatSpec spec;
    spec.align = '>', spec.sign = '-';
    bool zero = false, left = false;
    for (bool more = true; more;) {
      switch (peek()) {
        case '-':
          left = true, ++pos_;
          break;
        case '+':
          spec.sign = '+', ++pos_;
          break;
        case ' ':
          spec.sign = spec.sign == '+' ? '+' : ' ', ++pos_;
          break;
        case '#':
          spec.alternate = true, ++pos_;
          break;
        case '0':
          zero = true, ++pos_;
          break;
        default:
          more = false;
      }
    }
    spec.width = number_or_star();
    if (spec.width < 0) left = true, spec.width = -spec.width;
    if (peek() == '.') {
      ++pos_;
      spec.precision = std::max<i64>(0, number_or_star());
    }
    if (peek() == 'l' || peek() == 'h' || peek() == 'L') ++pos_;
    spec.type = peek();
    ++pos_;
    if (spec.type == '%') return out_.append(text_, mark, mark + 1);
    if (left) spec.align = '<';
    if (argument.missing()) argument = next_argument();
    convert(argument, spec, zero && !left);
  }

  void convert(const Value& argument, FormatSpec spec, bool zero) {
    switch (spec.type) {
      case 's':
      case 'r':
      case 'a': {
        const Str* text = spec.type == 's' ? to_str(rt_, argument).str : repr(rt_, argument).str;
        if (text_.markup && !text->markup) text = escape_html(rt_, *text).str;
        if (spec.precision >= 0 && spec.precision < static_cast<i64>(text->chars))
          text = slice_bytes(rt_, *text, 0, byte_offset(rt_, *text, static_cast<std::size_t>(spec.precision))).str;
        return append_padded(out_, rt_, *text, spec);
      }
      case 'c':
        return character(argument, spec);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return integer(argument, spec, zero);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return real(argument, spec, zero);
      default:
        rt_.fail("unsupported format character '{}' in a % format", spec.type);
    }
  }

  void character(const Value& argument, const FormatSpec& spec) {
    if (argument.is_string() && argument.str->chars == 1) return append_padded(out_, rt_, *argument.str, spec);
    if (!argument.is_int()) rt_.fail("%c requires int or char");
    append_formatted(out_, rt_, Value::integer(argument.as_int(), argument.content), spec);
  }

  void signed_text(std::string text, const Value& argument, FormatSpec spec, bool zero) {
    if (spec.sign != '-' && text[0] != '-') text.insert(text.begin(), spec.sign);
    if (zero) spec.align = '=', spec.fill = "0";
    append_padded(out_, rt_, *make_str(rt_, text, argument.content).str, spec);
  }

  void integer(const Value& argument, const FormatSpec& spec, bool zero) {
    const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
    if (argument.is(Kind::kUndefined)) fail_undefined(rt_, *argument.undefined);
    if (!argument.is_number() || (!decimal && !argument.is_int()))
      rt_.fail("%{} format: a number is required, not {}", spec.type, type_name(argument));
    if (argument.is(Kind::kFloat) && !(argument.f > -1e38 && argument.f < 1e38))
      rt_.fail("cannot convert {} to integer", float_text(argument.f));
    const Int value = argument.is(Kind::kFloat) ? static_cast<Int>(argument.f) : argument.as_int();
    std::string text = format_integer(value, decimal ? 'd' : spec.type, spec.alternate);
    if (spec.precision > 1000) rt_.fail("the precision of a format is too large");
    const std::size_t sign = text[0] == '-' ? 1 : 0;
    const auto digits = static_cast<i64>(text.size() - sign);
    if (spec.precision > digits) text.insert(sign, static_cast<std::size_t>(spec.precision - digits), '0');
    signed_text(std::move(text), argument, spec, zero);
  }

  void real(const Value& argument, const FormatSpec& spec, bool zero) {
    if (argument.is(Kind::kUndefined)) fail_undefined(rt_, *argument.undefined);
    if (!argument.is_number()) rt_.fail("must be real number, not {}", type_name(argument));
    if (spec.precision > 1000) rt_.fail("the precision of a format is too large");
    const double value = as_double(rt_, argument);
    signed_text(format_real(value, spec.type, spec.precision, spec.alternate), argument, spec, zero);
  }

  Runtime& rt_;
  const Str& text_;
  const Value& value_;
  StrBuilder out_;
  std::size_t pos_ = 0;
  std::size_t used_ = 0;
};

}  // namespace

Value percent_format(Runtime& rt, const Str& text, const Value& value) { return Percent(rt, text, value).run(); }

}  // namespace fathom::jinja
