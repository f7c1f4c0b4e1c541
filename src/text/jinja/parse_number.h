// Text to numbers as Python's int() and float() read it.
#pragma once

#include <optional>

#include "text/jinja/value.h"

namespace fathom::jinja {

// int(text, base); nothing where Python raises ValueError. Fails when the number does not fit.
std::optional<Int> parse_int(Runtime& rt, const Str& text, Int base);
// float(text); nothing where Python raises ValueError.
std::optional<double> parse_float(Runtime& rt, const Str& text);

}  // namespace fathom::jinja
