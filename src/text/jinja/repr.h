// Values as text: Python's str() and repr(), numbers as Python writes them, and JSON.
#pragma once

#include <string>

#include "text/jinja/text.h"

namespace fathom::jinja {

std::string int_text(Int value);
// The shortest text that reads back as the same double, as Python's repr(float).
std::string float_text(double value);

// str(value): strings as they are, undefined as nothing.
Value to_str(Runtime& rt, const Value& value);
void append_str(StrBuilder& out, Runtime& rt, const Value& value);
// repr(value).
Value repr(Runtime& rt, const Value& value);
void append_repr(StrBuilder& out, Runtime& rt, const Value& value);

// How json.dumps is to write. `indent` missing: on one line.
struct JsonStyle {
  bool ensure_ascii = false;
  bool indented = false;
  Value indent;  // text of one level
  Value item_separator, key_separator;
  bool sort_keys = false;
};

// json.dumps(value).
Value to_json(Runtime& rt, const Value& value, const JsonStyle& style);

// A string with &, <, >, ' and " replaced by HTML entities.
Value escape_html(Runtime& rt, const Str& text);

}  // namespace fathom::jinja
