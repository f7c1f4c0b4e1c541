// Replacing, splitting and joining text, shared by filters and methods.
#pragma once

#include "text/jinja/text.h"

namespace fathom::jinja {

// text.replace(from, to, count); a negative count replaces all.
Value replace_text(Runtime& rt, const Str& text, const Str& from, const Str& to, Int count);
// separator.join(items), where every item is written as str(item) or, if `strict`, must be a string.
Value join_text(Runtime& rt, const Str& separator, const Value& items, bool strict);

}  // namespace fathom::jinja
