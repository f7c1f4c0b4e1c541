#include "text/jinja/parse_number.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "text/jinja/format.h"
#include "text/jinja/method.h"
#include "text/jinja/ops.h"
#include "text/jinja/parse_number.h"
#include "text/jinja/repr.h"

namespace fathom::jinja {

namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

// Drops single underscores between digits; false where one stands elsewhere.
bool drop_underscores(std::string_view text, std::string* out) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      *out += text[i];
    } else if (i == 0 || i + 1 == text.size() || digit_of(text[i - 1]) > 35 || digit_of(text[i + 1]) > 35) {
      return false;
    }
  }
  return true;
}

std::string_view stripped(Runtime& rt, const Str& text) {
  const Span kept = strip_bounds(rt, text, nullptr, true, true);
  return text.view().substr(kept.begin, kept.end - kept.begin);
}

// Python's int(float): towards zero.
Int truncated(Runtime& rt, double value) {
  if (!(value > -0x1p126 && value < 0x1p126))
    rt.fail("integer overflow: {} does not fit into 128 bits", float_text(value));
  return static_cast<Int>(value);
}

}  // namespace

std::optional<Int> parse_int(Runtime& rt, const Str& text, Int base) {
  if (base != 0 && (base < 2 || base > 36)) return {};
  std::string_view view = stripped(rt, text);
  const bool negative = view.starts_with('-');
  if (negative || view.starts_with('+')) view.remove_prefix(1);
  const char mark = view.size() > 1 && view[0] == '0' ? static_cast<char>(view[1] | 0x20) : '\0';
  const Int marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
  if (marked != 0 && (base == 0 || base == marked)) {
    base = marked;
    view.remove_prefix(2);
    if (view.starts_with('_')) view.remove_prefix(1);
  }
  std::string digits;
  if (!drop_underscores(view, &digits) || digits.empty()) return {};
  const bool automatic = base == 0;
  if (automatic) base = 10;
  Int value = 0;
  for (const char c : digits)
    if (digit_of(c) >= base) return {};
  if (automatic && digits[0] == '0' && digits.find_first_not_of('0') != digits.npos) return {};
  for (const char c : digits)
    if (__builtin_mul_overflow(value, base, &value) || __builtin_add_overflow(value, Int(digit_of(c)), &value))
      rt.fail("integer overflow: the number does not fit into 128 bits");
  return negative ? -value : value;
}

std::optional<double> parse_float(Runtime& rt, const Str& text) {
  std::string clean;
  if (!drop_underscores(stripped(rt, text), &clean) || clean.empty()) return {};
  std::string_view body = clean;
  if (body[0] == '-' || body[0] == '+') body.remove_prefix(1);
  std::string lower(body);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  const bool word = lower == "inf" || lower == "infinity" || lower == "nan";
  // strtod would also take hexadecimal numbers and other words.
  if (!word && (lower.find_first_not_of("0123456789.e+-") != lower.npos || lower.empty())) return {};
  char* end = nullptr;
  const double value = std::strtod(clean.c_str(), &end);
  if (end != clean.c_str() + clean.size()) return {};
  return value;
}

namespace {

Value filter_int(Call& call) {
  Runtime& rt = call.rt;
  const Value fallback = call.has(0) ? call.args[0] : Value::integer(0);
  const Value& self = call.self;
  if (self.is(Kind::kUndefined)) fail_undefined(rt, *self.undefined);
  if (self.is_int()) return Value::integer(self.as_int(), self.content);
  if (self.is(Kind::kFloat)) {
    if (!std::isfinite(self.f)) return fallback;
    return Value::integer(truncated(rt, self.f), self.content);
  }
  if (!self.is_string()) return fallback;
  const bool content = any_content(*self.str);
  if (const auto value = parse_int(rt, *self.str, int_arg(call, 1, 10))) return Value::integer(*value, content);
  const auto real = parse_float(rt, *self.str);
  if (!real || !std::isfinite(*real)) return fallback;
  return Value::integer(truncated(rt, *real), content);
}

Value filter_float(Call& call) {
  Runtime& rt = call.rt;
  const Value fallback = call.has(0) ? call.args[0] : Value::real(0.0);
  const Value& self = call.self;
  if (self.is(Kind::kUndefined)) fail_undefined(rt, *self.undefined);
  if (self.is_number()) return Value::real(as_double(rt, self), self.content);
  if (!self.is_string()) return fallback;
  const auto real = parse_float(rt, *self.str);
  return real ? Value::real(*real, any_content(*self.str)) : fallback;
}

Value filter_abs(Call& call) {
  const Value& self = call.self;
  if (!self.is_number()) call.rt.fail("bad operand type for abs(): '{}'", type_name(self));
  if (self.is(Kind::kFloat)) return Value::real(std::abs(self.f), self.content);
  return self.as_int() < 0 ? negate(call.rt, self) : Value::integer(self.as_int(), self.content);
}

// round(value, -digits): to a multiple of a power of ten, ties to even.
Int round_integer(Runtime& rt, Int value, Int digits) {
  if (digits > 38) return 0;
  const Int unit = power(rt, Value::integer(10), Value::integer(digits)).i;
  Int rest = value % unit;
  if (rest < 0) rest += unit;
  const Int low = value - rest;
  const bool up = rest * 2 > unit || (rest * 2 == unit && (low / unit) % 2 != 0);
  return up ? low + unit : low;
}

double round_real(Runtime& rt, double value, Int digits) {
  if (!std::isfinite(value) || value == 0.0 || digits > 400) return value;
  if (digits < -310) return std::copysign(0.0, value);
  if (digits < 0) {
    // Exactly representable multiples only: go through the decimal digits.
    const double unit = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(value / unit) * unit;
  }
  const std::string text = format_real(value, 'f', static_cast<i64>(digits), false);
  (void)rt;
  return std::strtod(text.c_str(), nullptr);
}

Value filter_round(Call& call) {
  Runtime& rt = call.rt;
  const Value& self = call.self;
  std::string_view method = "common";
  if (call.has(1)) method = call.args[1].is_string() ? call.args[1].str->view() : "";
  if (method != "common" && method != "ceil" && method != "floor") rt.fail("method must be common, ceil or floor");
  if (!self.is_number()) {
    if (self.is(Kind::kUndefined)) fail_undefined(rt, *self.undefined);
    rt.fail("type {} doesn't define __round__ method", type_name(self));
  }
  if (method == "common") {
    if (call.has(0) && call.args[0].is(Kind::kNone)) {
      if (self.is_int()) return Value::integer(self.as_int(), self.content);
      if (!std::isfinite(self.f)) rt.fail("cannot convert float {} to integer", float_text(self.f));
      return Value::integer(truncated(rt, std::nearbyint(self.f)), self.content);
    }
    const Int digits = int_arg(call, 0, 0);
    if (self.is(Kind::kFloat)) return Value::real(round_real(rt, self.f, digits), self.content);
    return Value::integer(digits < 0 ? round_integer(rt, self.as_int(), -digits) : self.as_int(), self.content);
  }
  const Value unit = power(rt, Value::integer(10), call.has(0) ? call.args[0] : Value::integer(0));
  const Value scaled = arithmetic(rt, BinaryOp::kMul, self, unit);
  Value whole = scaled;
  if (scaled.is(Kind::kFloat)) {
    if (!std::isfinite(scaled.f)) rt.fail("cannot convert float {} to integer", float_text(scaled.f));
    whole = Value::integer(truncated(rt, method == "ceil" ? std::ceil(scaled.f) : std::floor(scaled.f)), self.content);
  }
  return arithmetic(rt, BinaryOp::kDiv, whole, unit);
}

Value filter_filesizeformat(Call& call) {
  static constexpr const char* kBinary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
  static constexpr const char* kDecimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
  Call as_float{call.rt, call.self, call.all};
  as_float.args[0] = Value::none();
  const Value number = filter_float(as_float);
  if (number.is(Kind::kNone)) call.rt.fail("filesizeformat needs a number, got '{}'", type_name(call.self));
  const bool binary_units = bool_arg(call, 0, false);
  const double bytes = number.f, base = binary_units ? 1024 : 1000;
  if (bytes == 1) return make_str(call.rt, "1 Byte", number.content);
  if (bytes < base) return make_str(call.rt, int_text(truncated(call.rt, bytes)) + " Bytes", number.content);
  double unit = base;
  const char* prefix = nullptr;
  for (const char* name : binary_units ? kBinary : kDecimal) {
    unit *= base, prefix = name;
    if (bytes < unit) break;
  }
  return make_str(call.rt, format_real(base * bytes / unit, 'f', 1, false) + " " + prefix, number.content);
}

Value filter_random(Call& call) { call.rt.fail("the filter 'random' is not available: a prompt must be reproducible"); }
Value filter_absent(Call& call) {
  call.rt.fail("the filters 'pprint' and 'urlize' are not available in chat templates");
}

constexpr Method kTable[] = {
    {"int", filter_int, 0, {"default", "base"}},
    {"float", filter_float, 0, {"default"}},
    {"abs", filter_abs},
    {"round", filter_round, 0, {"precision", "method"}},
    {"filesizeformat", filter_filesizeformat, 0, {"binary"}},
    {"random", filter_random},
    {"pprint", filter_absent, 0, {}, true},
    {"urlize", filter_absent, 0, {}, true},
};

}  // namespace

std::span<const Method> number_filters() { return kTable; }

}  // namespace fathom::jinja
