// Looking an attribute up along a dotted path, as filters with an `attribute` argument do.
#pragma once

#include "text/jinja/value.h"

namespace fathom::jinja {

// "a.b.0" as a list of names and numbers; an empty list for None or a missing value.
class AttributePath {
 public:
  AttributePath() = default;
  AttributePath(Runtime& rt, const Value& attribute);
  // The value at the end of the path; `fallback` (unless missing) replaces undefined steps.
  Value get(Runtime& rt, Value item, const Value& fallback) const;

 private:
  List* parts_ = nullptr;
};

// Sorts by the keys [0, size) of `keys`, giving the order of indices; stable, `reverse` as Python's.
std::size_t* sorted_order(Runtime& rt, const List& keys, bool reverse);
// Strings in lower case, other values as they are.
Value ignore_case(Runtime& rt, const Value& value);

}  // namespace fathom::jinja
