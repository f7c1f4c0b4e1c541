// Iterating values as Python does: one item after another, on demand.
#pragma once

#include "text/jinja/value.h"

namespace fathom::jinja {

// A source of items. Lives in the rendering's memory, so it has nothing to destroy.
class Iter {
 public:
  // The next item; false at the end.
  virtual bool next(Runtime& rt, Value& item) = 0;

 protected:
  ~Iter() = default;
};

// The iterator of a value; fails for values that cannot be iterated.
Iter* iterate(Runtime& rt, const Value& value);
// Whether iterate() would succeed.
bool iterable(const Value& value);
// All items as a new list.
List* collect(Runtime& rt, const Value& value);
Value make_generator(Runtime& rt, Iter* iter, const char* type = "generator");
// The items from last to first; fails for values that have no order.
Value reversed(Runtime& rt, const Value& value);

// What a template calls `loop`. Reads one item ahead only when asked for `last` or `nextitem`.
struct Loop {
  Iter* iter = nullptr;
  Int length = -1;  // not known yet
  Int index0 = -1;
  Int depth0 = 0;
  Value before, current, after;  // missing where there is none
  Value last_changed;
  const Stmt* recursive = nullptr;  // the statement to run again for loop(...)
  Scope* scope = nullptr;           // the frame around that statement

  bool advance(Runtime& rt, Value& item);
  bool last(Runtime& rt);
};

Int loop_length(Runtime& rt, Loop& loop);
// The loop's attribute `name`; missing when there is no such attribute.
Value loop_attribute(Runtime& rt, Loop& loop, std::string_view name);

}  // namespace fathom::jinja
