#include "text/jinja/repr.h"

#include <charconv>
#include <cmath>

#include "text/jinja/ast.h"
#include "text/jinja/iter.h"
#include "text/jinja/method.h"
#include "text/jinja/unicode.h"

namespace fathom::jinja {

std::string int_text(Int value) {
  if (value == 0) return "0";
  const bool negative = value < 0;
  std::string digits;
  for (; value != 0; value /= 10) {
    const int digit = static_cast<int>(value % 10);
    digits += static_cast<char>('0' + (digit < 0 ? -digit : digit));
  }
  if (negative) digits += '-';
  return {digits.rbegin(), digits.rend()};
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  std::string text(buffer, end);
  std::string sign = text[0] == '-' ? "-" : "";
  const std::size_t e = text.find('e');
  const int exponent = std::stoi(text.substr(e + 1));
  std::string digits;
  for (const char c : text.substr(0, e))
    if (c >= '0' && c <= '9') digits += c;
  if (exponent < -4 || exponent >= 16) {
    std::string out = sign + digits[0];
    if (digits.size() > 1) out += "." + digits.substr(1);
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

namespace {

void append_quoted(StrBuilder& out, Runtime& rt, const Str& text) {
  const std::string_view view = text.view();
  const bool twice = view.find('\'') != view.npos && view.find('"') == view.npos;
  const char quote = twice ? '"' : '\'';
  if (text.markup) out.append("Markup(");
  out.append(std::string_view(&quote, 1));
  std::size_t plain = 0;
  const auto flush = [&](std::size_t end) { out.append(text, plain, end); };
  for (std::size_t pos = 0; pos < view.size();) {
    const std::size_t size = char_size(view, pos);
    const char32_t c = char_at(view, pos);
    std::string escaped;
    if (c == static_cast<unsigned char>(quote) || c == '\\') {
      escaped = {'\\', static_cast<char>(c)};
    } else if (c == '\n' || c == '\r' || c == '\t') {
      escaped = c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (!is_printable(c)) {
      const auto code = static_cast<std::uint32_t>(c);
      escaped = c < 0x100     ? fmt::format("\\x{:02x}", code)
                : c < 0x10000 ? fmt::format("\\u{:04x}", code)
                              : fmt::format("\\U{:08x}", code);
    }
    if (!escaped.empty()) {
      flush(pos);
      out.append_for(escaped, text, pos, pos + size);
      plain = pos + size;
    }
    pos += size;
  }
  flush(view.size());
  out.append(std::string_view(&quote, 1));
  if (text.markup) out.append(")");
  rt.step();
}

void append_items(StrBuilder& out, Runtime& rt, const Value& value) {
  const bool tuple = value.is(Kind::kTuple);
  out.append(tuple ? "(" : "[");
  for (std::size_t i = 0; i < value.list->size; ++i) {
    if (i != 0) out.append(", ");
    append_repr(out, rt, (*value.list)[i]);
  }
  if (tuple && value.list->size == 1) out.append(",");
  out.append(tuple ? ")" : "]");
}

void append_dict(StrBuilder& out, Runtime& rt, const Dict& dict) {
  out.append("{");
  for (std::size_t i = 0; i < dict.size; ++i) {
    if (i != 0) out.append(", ");
    append_repr(out, rt, dict.entries[i].key);
    out.append(": ");
    append_repr(out, rt, dict.entries[i].value);
  }
  out.append("}");
}

void append_range(StrBuilder& out, const Range& range) {
  out.append("range(" + int_text(range.start) + ", " + int_text(range.stop));
  if (range.step != 1) out.append(", " + int_text(range.step));
  out.append(")");
}

void append_object(StrBuilder& out, Runtime& rt, const Value& value) {
  switch (value.kind) {
    case Kind::kRange:
      append_range(out, *value.range);
      return;
    case Kind::kView:
      out.append(std::string(type_name(value)) + "(");
      append_items(out, rt, Value::list_of(collect(rt, value)));
      out.append(")");
      return;
    case Kind::kNamespace:
      out.append("<Namespace ");
      append_dict(out, rt, *value.space->attributes);
      out.append(">");
      return;
    case Kind::kLoop:
      out.append("<LoopContext " + int_text(value.loop->index0 + 1) + "/" + int_text(loop_length(rt, *value.loop)) +
                 ">");
      return;
    case Kind::kMacro:
      out.append("<Macro '" + value.macro->definition->name + "'>");
      return;
    case Kind::kFunction:
      out.append("<function " + std::string(value.function->method->name) + ">");
      return;
    default:
      out.append("<" + std::string(type_name(value)) + " object>");
  }
}

}  // namespace

void append_repr(StrBuilder& out, Runtime& rt, const Value& value) {
  Runtime::Nest nest(rt);
  rt.step();
  switch (value.kind) {
    case Kind::kMissing:
    case Kind::kUndefined:
      out.append("Undefined");
      return;
    case Kind::kNone:
      out.append("None", value.content);
      return;
    case Kind::kBool:
      out.append(value.b ? "True" : "False", value.content);
      return;
    case Kind::kInt:
      out.append(int_text(value.i), value.content);
      return;
    case Kind::kFloat:
      out.append(float_text(value.f), value.content);
      return;
    case Kind::kString:
      append_quoted(out, rt, *value.str);
      return;
    case Kind::kList:
    case Kind::kTuple:
      append_items(out, rt, value);
      return;
    case Kind::kDict:
      append_dict(out, rt, *value.dict);
      return;
    default:
      append_object(out, rt, value);
  }
}

void append_str(StrBuilder& out, Runtime& rt, const Value& value) {
  if (value.is_string()) {
    out.append(*value.str);
  } else if (!value.is(Kind::kUndefined)) {
    append_repr(out, rt, value);
  }
}

Value to_str(Runtime& rt, const Value& value) {
  if (value.is_string()) return value;
  StrBuilder out(rt);
  append_str(out, rt, value);
  return out.finish();
}

Value repr(Runtime& rt, const Value& value) {
  StrBuilder out(rt);
  append_repr(out, rt, value);
  return out.finish();
}

Value escape_html(Runtime& rt, const Str& text) {
  StrBuilder out(rt);
  std::size_t plain = 0;
  for (std::size_t i = 0; i < text.size; ++i) {
    std::string_view entity;
    switch (text.data[i]) {
      case '&':
        entity = "&amp;";
        break;
      case '<':
        entity = "&lt;";
        break;
      case '>':
        entity = "&gt;";
        break;
      case '\'':
        entity = "&#39;";
        break;
      case '"':
        entity = "&#34;";
        break;
      default:
        continue;
    }
    out.append(text, plain, i);
    out.append_for(entity, text, i, i + 1);
    plain = i + 1;
  }
  out.append(text, plain, text.size);
  return out.finish(true);
}

}  // namespace fathom::jinja
