// Python's operators, and access to attributes, elements and slices, as Jinja's sandbox allows them.
#pragma once

#include "text/jinja/ast.h"

namespace fathom::jinja {

Value binary(Runtime& rt, BinaryOp op, const Value& a, const Value& b);
Value negate(Runtime& rt, const Value& value);
Value positive(Runtime& rt, const Value& value);
bool compare_op(Runtime& rt, CompareOp op, const Value& a, const Value& b);
// `item in container`.
bool contains(Runtime& rt, const Value& container, const Value& item);

// Arithmetic on two numbers (number.cc).
Value arithmetic(Runtime& rt, BinaryOp op, const Value& a, const Value& b);
Value power(Runtime& rt, const Value& a, const Value& b);
double as_double(Runtime& rt, const Value& number);

// object.name: attributes first, then elements; undefined when there is neither.
Value get_attribute(Runtime& rt, const Value& object, const Value& name);
// object[key]: elements first, then attributes.
Value get_item(Runtime& rt, const Value& object, const Value& key);
// Only the attribute; missing when there is none.
Value own_attribute(Runtime& rt, const Value& object, const Value& name);
// object[start:stop:step]; missing bounds are None.
Value get_slice(Runtime& rt, const Value& object, const Value& start, const Value& stop, const Value& step);

}  // namespace fathom::jinja
