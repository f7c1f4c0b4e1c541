// Methods of lists, tuples, ranges, dictionaries, numbers, loops and cyclers.
#include <cmath>

#include "text/jinja/iter.h"
#include "text/jinja/method.h"
#include "text/jinja/repr.h"

namespace fathom::jinja {

namespace {

Value list_count(Call& call) {
  Int count = 0;
  Iter* iter = iterate(call.rt, call.self);
  for (Value item; iter->next(call.rt, item);)
    count += same(item, call.args[0]) || equals(call.rt, item, call.args[0]) ? 1 : 0;
  return Value::integer(count);
}

Value list_index(Call& call) {
  const Int size = length_of(call.rt, call.self);
  const auto bound = [&](std::size_t i, Int fallback) {
    const Int at = int_arg(call, i, fallback);
    return at < 0 ? std::max<Int>(at + size, 0) : at;
  };
  const Int start = bound(1, 0), end = bound(2, size);
  Iter* iter = iterate(call.rt, call.self);
  Int at = 0;
  for (Value item; at < end && iter->next(call.rt, item); ++at)
    if (at >= start && (same(item, call.args[0]) || equals(call.rt, item, call.args[0]))) return Value::integer(at);
  call.rt.fail("{} is not in the {}", repr(call.rt, call.args[0]).str->view(), type_name(call.self));
}

Value list_copy(Call& call) { return Value::list_of(collect(call.rt, call.self)); }

Value view(Call& call, ViewKind kind) {
  Value value = Value::of(Kind::kView);
  value.view = call.rt.make<View>(View{call.self.dict, kind});
  return value;
}

Value dict_keys(Call& call) { return view(call, ViewKind::kKeys); }
Value dict_values(Call& call) { return view(call, ViewKind::kValues); }
Value dict_items(Call& call) { return view(call, ViewKind::kItems); }

Value dict_get(Call& call) {
  const Value* found = call.self.dict->find(call.rt, call.args[0]);
  if (found != nullptr) return *found;
  return call.has(1) ? call.args[1] : Value::none();
}

Value dict_copy(Call& call) {
  Value value = Value::of(Kind::kDict);
  value.dict = call.rt.make<Dict>();
  for (const Dict::Entry& entry : *call.self.dict) value.dict->set(call.rt, entry.key, entry.value);
  return value;
}

Value number_is_integer(Call& call) {
  return Value::boolean(std::isfinite(call.self.f) && call.self.f == std::floor(call.self.f));
}

Value number_bit_length(Call& call) {
  Int rest = call.self.as_int(), bits = 0;
  for (; rest != 0; rest /= 2) ++bits;
  return Value::integer(bits);
}

Value loop_cycle(Call& call) {
  const auto& items = call.all.items;
  if (items.empty()) call.rt.fail("no items for cycling given");
  return items[static_cast<std::size_t>(call.self.loop->index0) % items.size()];
}

Value loop_changed(Call& call) {
  List* now = call.rt.make<List>();
  for (const Value& item : call.all.items) now->push(call.rt, item);
  const Value value = Value::list_of(now, Kind::kTuple);
  Value& last = call.self.loop->last_changed;
  if (!last.missing() && equals(call.rt, last, value)) return Value::boolean(false);
  last = value;
  return Value::boolean(true);
}

Value cycler_next(Call& call) {
  Cycler& cycler = *call.self.cycler;
  const Value item = (*cycler.items)[cycler.pos];
  cycler.pos = (cycler.pos + 1) % cycler.items->size;
  return item;
}

Value cycler_reset(Call& call) {
  call.self.cycler->pos = 0;
  return Value::none();
}

constexpr Method kList[] = {
    {"count", list_count, 1, {"value"}, false, false},
    {"index", list_index, 1, {"value", "start", "stop"}, false, false},
    {"copy", list_copy},
};

constexpr Method kDict[] = {
    {"get", dict_get, 1, {"key", "default"}, false, false},
    {"items", dict_items},
    {"keys", dict_keys},
    {"values", dict_values},
    {"copy", dict_copy},
};

constexpr Method kNumber[] = {
    {"is_integer", number_is_integer},
    {"bit_length", number_bit_length},
};

constexpr Method kLoop[] = {
    {"cycle", loop_cycle, 0, {}, true},
    {"changed", loop_changed, 0, {}, true},
};

constexpr Method kCycler[] = {
    {"next", cycler_next},
    {"reset", cycler_reset},
};

}  // namespace

std::span<const Method> list_methods() { return kList; }
std::span<const Method> dict_methods() { return kDict; }
std::span<const Method> number_methods() { return kNumber; }
std::span<const Method> loop_methods() { return kLoop; }
std::span<const Method> cycler_methods() { return kCycler; }

}  // namespace fathom::jinja
