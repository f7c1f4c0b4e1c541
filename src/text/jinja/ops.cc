#include "text/jinja/ops.h"

#include <algorithm>

#include "text/jinja/format.h"
#include "text/jinja/iter.h"
#include "text/jinja/method.h"
#include "text/jinja/repr.h"

namespace fathom::jinja {

namespace {

constexpr const char* kSymbols[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

[[noreturn]] void fail_operands(Runtime& rt, BinaryOp op, const Value& a, const Value& b) {
  if (op == BinaryOp::kAdd && (a.is_string() || a.is_sequence()))
    rt.fail("can only concatenate {} (not \"{}\") to {}", type_name(a), type_name(b), type_name(a));
  rt.fail("unsupported operand type(s) for {}: '{}' and '{}'", kSymbols[static_cast<int>(op)], type_name(a),
          type_name(b));
}

Value add_strings(Runtime& rt, const Str& a, const Str& b) {
  if (a.markup == b.markup) return concat(rt, a, b);
  return a.markup ? concat(rt, a, *escape_html(rt, b).str) : concat(rt, *escape_html(rt, a).str, b);
}

Value repeat_list(Runtime& rt, const Value& value, Int count) {
  List* out = rt.make<List>();
  if (value.list->size != 0)
    for (Int i = 0; i < count; ++i)
      for (const Value& item : *value.list) out->push(rt, item);
  return Value::list_of(out, value.kind);
}

Value multiply(Runtime& rt, const Value& a, const Value& b) {
  if (a.is_string() && b.is_int()) return repeat(rt, *a.str, b.as_int());
  if (a.is_sequence() && b.is_int()) return repeat_list(rt, a, b.as_int());
  if (a.is_int() && (b.is_string() || b.is_sequence())) return multiply(rt, b, a);
  if (a.is_string() || a.is_sequence() || b.is_string() || b.is_sequence()) {
    const Value& factor = a.is_string() || a.is_sequence() ? b : a;
    rt.fail("can't multiply sequence by non-int of type '{}'", type_name(factor));
  }
  fail_operands(rt, BinaryOp::kMul, a, b);
}

}  // namespace

Value binary(Runtime& rt, BinaryOp op, const Value& a, const Value& b) {
  rt.step();
  if (op == BinaryOp::kMod && a.is_string()) return percent_format(rt, *a.str, b);
  if (a.is(Kind::kUndefined)) fail_undefined(rt, *a.undefined);
  if (b.is(Kind::kUndefined)) fail_undefined(rt, *b.undefined);
  if (a.is_number() && b.is_number()) return arithmetic(rt, op, a, b);
  if (op == BinaryOp::kAdd) {
    if (a.is_string() && b.is_string()) return add_strings(rt, *a.str, *b.str);
    if (a.is_sequence() && a.kind == b.kind) {
      List* out = rt.make<List>();
      for (const Value& item : *a.list) out->push(rt, item);
      for (const Value& item : *b.list) out->push(rt, item);
      return Value::list_of(out, a.kind);
    }
  }
  if (op == BinaryOp::kMul) return multiply(rt, a, b);
  fail_operands(rt, op, a, b);
}

Value negate(Runtime& rt, const Value& value) {
  if (value.is(Kind::kUndefined)) fail_undefined(rt, *value.undefined);
  if (value.is(Kind::kFloat)) return Value::real(-value.f, value.content);
  if (!value.is_int()) rt.fail("bad operand type for unary -: '{}'", type_name(value));
  return arithmetic(rt, BinaryOp::kSub, Value::integer(0), value);
}

Value positive(Runtime& rt, const Value& value) {
  if (value.is(Kind::kUndefined)) fail_undefined(rt, *value.undefined);
  if (value.is(Kind::kFloat)) return value;
  if (!value.is_int()) rt.fail("bad operand type for unary +: '{}'", type_name(value));
  return Value::integer(value.as_int(), value.content);
}

bool compare_op(Runtime& rt, CompareOp op, const Value& a, const Value& b) {
  switch (op) {
    case CompareOp::kEq:
      return equals(rt, a, b);
    case CompareOp::kNe:
      return !equals(rt, a, b);
    case CompareOp::kLt:
      return compare(rt, a, b, "<") == -1;
    case CompareOp::kLe: {
      const int order = compare(rt, a, b, "<=");
      return order == -1 || order == 0;
    }
    case CompareOp::kGt:
      return compare(rt, a, b, ">") == 1;
    case CompareOp::kGe: {
      const int order = compare(rt, a, b, ">=");
      return order == 1 || order == 0;
    }
    case CompareOp::kIn:
      return contains(rt, b, a);
    case CompareOp::kNotIn:
      return !contains(rt, b, a);
  }
  return false;
}

bool contains(Runtime& rt, const Value& container, const Value& item) {
  switch (container.kind) {
    case Kind::kString:
      if (!item.is_string()) rt.fail("'in <string>' requires string as left operand, not {}", type_name(item));
      return find_text(rt, container.str->view(), item.str->view(), 0) != std::string_view::npos;
    case Kind::kDict:
      return container.dict->find(rt, item) != nullptr;
    case Kind::kRange: {
      if (!item.is_number()) return false;
      const Range& range = *container.range;
      if (item.is(Kind::kFloat) && (item.f != item.f || item.f > 1e30 || item.f < -1e30)) return false;
      const Int at = item.is(Kind::kFloat) ? static_cast<Int>(item.f) : item.as_int();
      if (item.is(Kind::kFloat) && static_cast<double>(at) != item.f) return false;
      const bool inside = range.step > 0 ? at >= range.start && at < range.stop : at <= range.start && at > range.stop;
      return inside && (at - range.start) % range.step == 0;
    }
    case Kind::kView:
      if (container.view->kind == ViewKind::kKeys) return container.view->dict->find(rt, item) != nullptr;
      break;
    default:
      break;
  }
  if (!iterable(container)) rt.fail("argument of type '{}' is not iterable", type_name(container));
  Iter* iter = iterate(rt, container);
  for (Value other; iter->next(rt, other);)
    if (same(other, item) || equals(rt, other, item)) return true;
  return false;
}

}  // namespace fathom::jinja
