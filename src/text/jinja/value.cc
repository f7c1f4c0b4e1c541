#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "text/jinja/iter.h"
#include "text/jinja/repr.h"
#include "text/jinja/text.h"

namespace fathom::jinja {

void List::push(Runtime& rt, const Value& value) {
  if (size == capacity) {
    const std::size_t wider = std::max<std::size_t>(4, capacity * 2);
    auto* copy = static_cast<Value*>(rt.allocate(wider * sizeof(Value)));
    if (size != 0) std::memcpy(static_cast<void*>(copy), items, size * sizeof(Value));
    items = copy, capacity = wider;
  }
  items[size++] = value;
  rt.step();
}

Value make_list(Runtime& rt, List** out) {
  *out = rt.make<List>();
  return Value::list_of(*out);
}

Value make_tuple(Runtime& rt, std::initializer_list<Value> items) {
  List* list = rt.make<List>();
  for (const Value& item : items) list->push(rt, item);
  return Value::list_of(list, Kind::kTuple);
}

const char* type_name(const Value& value) {
  switch (value.kind) {
    case Kind::kMissing:
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return value.str->markup ? "Markup" : "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kRange:
      return "range";
    case Kind::kView:
      return value.view->kind == ViewKind::kKeys     ? "dict_keys"
             : value.view->kind == ViewKind::kValues ? "dict_values"
                                                     : "dict_items";
    case Kind::kGenerator:
      return value.generator->type;
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kLoop:
      return "LoopContext";
    case Kind::kMacro:
      return "Macro";
    case Kind::kFunction:
      return "function";
    case Kind::kCycler:
      return "Cycler";
    case Kind::kJoiner:
      return "Joiner";
  }
  return "object";
}

bool truthy(const Value& value) {
  switch (value.kind) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return value.b;
    case Kind::kInt:
      return value.i != 0;
    case Kind::kFloat:
      return value.f != 0.0;
    case Kind::kString:
      return value.str->size != 0;
    case Kind::kList:
    case Kind::kTuple:
      return value.list->size != 0;
    case Kind::kDict:
      return value.dict->size != 0;
    case Kind::kRange:
      return value.range->size() != 0;
    case Kind::kView:
      return value.view->dict->size != 0;
    default:
      return true;
  }
}

namespace {

// Exact comparison of an integer with a float, as Python makes it.
int compare_int_float(Int i, double f) {
  if (std::isinf(f)) return f > 0 ? -1 : 1;
  if (f >= 0x1p126) return -1;
  if (f <= -0x1p126) return 1;
  const double whole = std::trunc(f);
  const Int as_int = static_cast<Int>(whole);
  if (i != as_int) return i < as_int ? -1 : 1;
  return f > whole ? -1 : f < whole ? 1 : 0;
}

// NaN compares as unordered: 2.
int compare_numbers(const Value& a, const Value& b) {
  if (a.is_int() && b.is_int()) return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int() ? 1 : 0;
  if ((a.is(Kind::kFloat) && std::isnan(a.f)) || (b.is(Kind::kFloat) && std::isnan(b.f))) return 2;
  if (a.is_int()) return compare_int_float(a.as_int(), b.f);
  if (b.is_int()) return -compare_int_float(b.as_int(), a.f);
  return a.f < b.f ? -1 : a.f > b.f ? 1 : 0;
}

bool equal_lists(Runtime& rt, const List& a, const List& b) {
  if (a.size != b.size) return false;
  for (std::size_t i = 0; i < a.size; ++i)
    if (!same(a[i], b[i]) && !equals(rt, a[i], b[i])) return false;
  return true;
}

bool equal_dicts(Runtime& rt, const Dict& a, const Dict& b) {
  if (a.size != b.size) return false;
  for (const Dict::Entry& entry : a) {
    const Value* other = b.find(rt, entry.key);
    if (other == nullptr || (!same(entry.value, *other) && !equals(rt, entry.value, *other))) return false;
  }
  return true;
}

bool equal_views(Runtime& rt, const Value& a, const Value& b) {
  // keys() and items() are sets: equal when each member of one is in the other.
  if (a.view->kind != b.view->kind || a.view->kind == ViewKind::kValues) return a.view == b.view;
  if (a.view->kind == ViewKind::kItems) return equal_dicts(rt, *a.view->dict, *b.view->dict);
  if (a.view->dict->size != b.view->dict->size) return false;
  return std::all_of(a.view->dict->begin(), a.view->dict->end(),
                     [&](const Dict::Entry& entry) { return b.view->dict->find(rt, entry.key) != nullptr; });
}

bool equal_ranges(const Range& a, const Range& b) {
  if (a.size() != b.size()) return false;
  if (a.size() == 0) return true;
  return a.start == b.start && (a.size() == 1 || a.step == b.step);
}

}  // namespace

bool equals(Runtime& rt, const Value& a, const Value& b) {
  rt.step();
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.kind != b.kind) return false;
  Runtime::Nest nest(rt);
  switch (a.kind) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      if (a.str->size == b.str->size) rt.scan(a.str->size);
      return a.str->view() == b.str->view();
    case Kind::kList:
    case Kind::kTuple:
      return a.list == b.list || equal_lists(rt, *a.list, *b.list);
    case Kind::kDict:
      return a.dict == b.dict || equal_dicts(rt, *a.dict, *b.dict);
    case Kind::kRange:
      return equal_ranges(*a.range, *b.range);
    case Kind::kView:
      return equal_views(rt, a, b);
    default:
      return same(a, b);
  }
}

bool same(const Value& a, const Value& b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::kMissing:
    case Kind::kNone:
      return true;
    case Kind::kBool:
      return a.b == b.b;
    case Kind::kInt:
      return a.i == b.i;
    case Kind::kFloat:
      return std::memcmp(&a.f, &b.f, sizeof a.f) == 0;
    case Kind::kString:
      return a.str == b.str || (a.str->chars <= 1 && a.str->view() == b.str->view());
    case Kind::kFunction:
      return a.function == b.function;
    default:
      return a.list == b.list;
  }
}

int compare(Runtime& rt, const Value& a, const Value& b, const char* op) {
  rt.step();
  if (a.is_number() && b.is_number()) return compare_numbers(a, b);
  if (a.is(Kind::kUndefined)) fail_undefined(rt, *a.undefined);
  if (b.is(Kind::kUndefined)) fail_undefined(rt, *b.undefined);
  if (a.is_string() && b.is_string()) {
    rt.scan(std::min(a.str->size, b.str->size));
    const int order = a.str->view().compare(b.str->view());  // UTF-8 sorts as its code points do
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  if (a.is_sequence() && a.kind == b.kind) {
    Runtime::Nest nest(rt);
    for (std::size_t i = 0; i < std::min(a.list->size, b.list->size); ++i)
      if (!equals(rt, (*a.list)[i], (*b.list)[i])) return compare(rt, (*a.list)[i], (*b.list)[i], op);
    return a.list->size < b.list->size ? -1 : a.list->size > b.list->size ? 1 : 0;
  }
  rt.fail("'{}' is not supported between '{}' and '{}'", op, type_name(a), type_name(b));
}

namespace {

std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 33, x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33, x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

std::uint64_t hash_int(Int i) { return mix(static_cast<std::uint64_t>(i) ^ mix(static_cast<std::uint64_t>(i >> 64))); }

std::uint64_t hash_text(std::string_view text) { return mix(std::hash<std::string_view>()(text)); }

}  // namespace

std::uint64_t hash_of(Runtime& rt, const Value& value) {
  switch (value.kind) {
    case Kind::kBool:
    case Kind::kInt:
      return hash_int(value.as_int());
    case Kind::kFloat:
      if (std::abs(value.f) < 0x1p126 && value.f == std::trunc(value.f)) return hash_int(static_cast<Int>(value.f));
      return mix(std::hash<double>()(value.f));
    case Kind::kString:
      rt.scan(value.str->size);
      return hash_text(value.str->view());
    case Kind::kTuple: {
      Runtime::Nest nest(rt);
      std::uint64_t hash = 0x345678;
      for (const Value& item : *value.list) rt.step(), hash = mix(hash * 31 + hash_of(rt, item));
      return hash;
    }
    case Kind::kList:
    case Kind::kDict:
      rt.fail("unhashable type: '{}'", type_name(value));
    case Kind::kView:
      if (value.view->kind != ViewKind::kValues) rt.fail("unhashable type: '{}'", type_name(value));
      return 2;
    case Kind::kRange:
      return hash_int(value.range->size());
    default:
      return static_cast<std::uint64_t>(value.kind);
  }
}

Int length_of(Runtime& rt, const Value& value) {
  switch (value.kind) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return static_cast<Int>(value.str->chars);
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<Int>(value.list->size);
    case Kind::kDict:
      return static_cast<Int>(value.dict->size);
    case Kind::kRange:
      return value.range->size();
    case Kind::kView:
      return static_cast<Int>(value.view->dict->size);
    case Kind::kLoop:
      return loop_length(rt, *value.loop);
    default:
      rt.fail("a value of type '{}' has no length", type_name(value));
  }
}

}  // namespace fathom::jinja
