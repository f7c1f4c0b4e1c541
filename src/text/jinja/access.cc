#include "text/jinja/ops.h"

#include <algorithm>

#include "text/jinja/iter.h"
#include "text/jinja/method.h"
#include "text/jinja/text.h"

namespace fathom::jinja {

namespace {

Value macro_attribute(Runtime& rt, const Stmt& macro, std::string_view name) {
  if (name == "name") return Value::string(&macro.text);
  if (name == "caller") return Value::boolean(macro.caller_slot >= 0);
  if (name == "catch_kwargs") return Value::boolean(macro.kwargs_slot >= 0);
  if (name == "catch_varargs") return Value::boolean(macro.varargs_slot >= 0);
  if (name != "arguments") return {};
  List* list = nullptr;
  Value value = make_list(rt, &list);
  for (const Parameter& parameter : macro.parameters) list->push(rt, Value::string(&parameter.name));
  value.kind = Kind::kTuple;
  return value;
}

// Attributes that are no methods.
Value data_attribute(Runtime& rt, const Value& object, const Value& name) {
  const std::string_view text = name.str->view();
  switch (object.kind) {
    case Kind::kNamespace:
      if (const Value* found = object.space->attributes->find(rt, name)) return *found;
      return {};
    case Kind::kTuple:
      if (object.list->group && (text == "grouper" || text == "list")) return (*object.list)[text == "list" ? 1 : 0];
      return {};
    case Kind::kLoop:
      return loop_attribute(rt, *object.loop, text);
    case Kind::kMacro:
      return macro_attribute(rt, *object.macro->definition, text);
    case Kind::kRange:
      if (text == "start") return Value::integer(object.range->start);
      if (text == "stop") return Value::integer(object.range->stop);
      if (text == "step") return Value::integer(object.range->step);
      return {};
    case Kind::kCycler:
      if (text == "current") return (*object.cycler->items)[object.cycler->pos];
      if (text == "items") return Value::list_of(object.cycler->items, Kind::kTuple);
      if (text == "pos") return Value::integer(static_cast<Int>(object.cycler->pos));
      return {};
    case Kind::kJoiner:
      if (text == "sep") return object.joiner->separator;
      if (text == "used") return Value::boolean(object.joiner->used);
      return {};
    case Kind::kBool:
    case Kind::kInt:
      if (text == "real" || text == "numerator") return Value::integer(object.as_int(), object.content);
      if (text == "imag") return Value::integer(0);
      if (text == "denominator") return Value::integer(1);
      return {};
    case Kind::kFloat:
      if (text == "real") return object;
      if (text == "imag") return Value::real(0.0);
      return {};
    default:
      return {};
  }
}

// The element of a list, tuple, string or range; missing when out of bounds.
Value element(Runtime& rt, const Value& object, Int index) {
  const Int size = length_of(rt, object);
  if (index < 0) index += size;
  if (index < 0 || index >= size) return {};
  const auto at = static_cast<std::size_t>(index);
  if (object.is_string()) return char_value(rt, *object.str, at);
  if (object.is(Kind::kRange)) return Value::integer(object.range->start + index * object.range->step);
  return (*object.list)[at];
}

bool hashable(const Value& value) {
  if (value.is(Kind::kTuple)) return std::all_of(value.list->begin(), value.list->end(), hashable);
  return !value.is(Kind::kList) && !value.is(Kind::kDict) &&
         !(value.is(Kind::kView) && value.view->kind != ViewKind::kValues);
}

// The element under `key`; missing when there is none or the object has no elements.
Value own_item(Runtime& rt, const Value& object, const Value& key) {
  switch (object.kind) {
    case Kind::kUndefined:
      fail_undefined(rt, *object.undefined);
    case Kind::kDict:
      if (!hashable(key)) return {};
      if (const Value* found = object.dict->find(rt, key)) return *found;
      return {};
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
      return key.is_int() ? element(rt, object, key.as_int()) : Value();
    default:
      return {};
  }
}

}  // namespace

Value own_attribute(Runtime& rt, const Value& object, const Value& name) {
  Value found = data_attribute(rt, object, name);
  if (!found.missing()) return found;
  const std::string_view text = name.str->view();
  if (const Method* method = find_method(object.kind, text)) return bind_method(rt, *method, object);
  std::string why;
  if (refused_attribute(object, text, &why)) return undefined_hint(rt, why);
  return {};
}

Value get_attribute(Runtime& rt, const Value& object, const Value& name) {
  rt.step();
  if (object.is(Kind::kUndefined)) fail_undefined(rt, *object.undefined);
  Value found = own_attribute(rt, object, name);
  if (found.missing()) found = own_item(rt, object, name);
  return found.missing() ? undefined_member(rt, object, name) : found;
}

Value get_item(Runtime& rt, const Value& object, const Value& key) {
  rt.step();
  Value found = own_item(rt, object, key);
  if (found.missing() && key.is_string()) found = own_attribute(rt, object, key);
  return found.missing() ? undefined_member(rt, object, key) : found;
}

namespace {

struct Bounds {
  Int start, stop, step, count;
};

Int slice_index(Runtime& rt, const Value& value, Int fallback) {
  if (value.missing() || value.is(Kind::kNone)) return fallback;
  if (!value.is_int()) rt.fail("slice indices must be integers or None, not '{}'", type_name(value));
  return value.as_int();
}

Bounds slice_bounds(Runtime& rt, Int size, const Value& start, const Value& stop, const Value& step) {
  const Int by = slice_index(rt, step, 1);
  if (by == 0) rt.fail("slice step cannot be zero");
  const Int low = by > 0 ? 0 : -1, high = by > 0 ? size : size - 1;
  const auto clamp = [&](Int at) { return std::clamp(at < 0 ? at + size : at, low, high); };
  const auto bound = [&](const Value& value, Int fallback) {
    return value.missing() || value.is(Kind::kNone) ? fallback : clamp(slice_index(rt, value, 0));
  };
  const Int from = bound(start, by > 0 ? low : high), to = bound(stop, by > 0 ? high : low);
  // A step longer than the value takes one item at most; shortening it keeps the sum below from overflowing.
  const Int stride = std::clamp(by, -size - 1, size + 1);
  return {from, to, stride, Range{from, to, stride}.size()};
}

Value slice_text(Runtime& rt, const Str& text, const Bounds& at) {
  if (at.step == 1) {
    if (at.count == 0) return slice_bytes(rt, text, 0, 0);
    return slice_bytes(rt, text, byte_offset(rt, text, static_cast<std::size_t>(at.start)),
                       byte_offset(rt, text, static_cast<std::size_t>(at.stop)));
  }
  // Offsets of all characters first, so that a step through a long text stays linear.
  rt.step(static_cast<i64>(text.chars));
  auto* offsets = static_cast<std::size_t*>(rt.allocate((text.chars + 1) * sizeof(std::size_t)));
  std::size_t count = 0;
  for (std::size_t pos = 0; pos < text.size; pos += char_size(text.view(), pos)) offsets[count++] = pos;
  offsets[count] = text.size;
  StrBuilder out(rt);
  for (Int i = 0; i < at.count; ++i) {
    const auto index = static_cast<std::size_t>(at.start + i * at.step);
    out.append(text, offsets[index], offsets[index + 1]);
  }
  return out.finish(text.markup);
}

}  // namespace

Value get_slice(Runtime& rt, const Value& object, const Value& start, const Value& stop, const Value& step) {
  rt.step();
  switch (object.kind) {
    case Kind::kUndefined:
      fail_undefined(rt, *object.undefined);
    case Kind::kString:
      return slice_text(rt, *object.str, slice_bounds(rt, length_of(rt, object), start, stop, step));
    case Kind::kList:
    case Kind::kTuple: {
      const Bounds at = slice_bounds(rt, length_of(rt, object), start, stop, step);
      List* out = rt.make<List>();
      for (Int i = 0; i < at.count; ++i)
        out->push(rt, (*object.list)[static_cast<std::size_t>(at.start + i * at.step)]);
      return Value::list_of(out, object.kind);
    }
    case Kind::kRange: {
      const Bounds at = slice_bounds(rt, length_of(rt, object), start, stop, step);
      const Range& range = *object.range;
      Value value = Value::of(Kind::kRange);
      value.range = rt.make<Range>(
          Range{range.start + at.start * range.step, range.start + at.stop * range.step, range.step * at.step});
      return value;
    }
    default:
      rt.fail("a value of type '{}' cannot be sliced", type_name(object));
  }
}

}  // namespace fathom::jinja
