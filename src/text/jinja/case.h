// Python's case mappings of whole strings; every character keeps its origin.
#pragma once

#include "text/jinja/text.h"

namespace fathom::jinja {

Value to_upper(Runtime& rt, const Str& text);
Value to_lower(Runtime& rt, const Str& text);
Value to_title(Runtime& rt, const Str& text);  // str.title(): a capital after every character without case
Value capitalize(Runtime& rt, const Str& text);
Value swap_case(Runtime& rt, const Str& text);
Value case_fold(Runtime& rt, const Str& text);

}  // namespace fathom::jinja
