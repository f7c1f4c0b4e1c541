// Functions that every template finds: Jinja's own and those that transformers adds.
#include <ctime>
#include <string>

#include "text/jinja/iter.h"
#include "text/jinja/method.h"
#include "text/jinja/repr.h"

namespace fathom::jinja {

namespace {

Value global_range(Call& call) {
  const auto& items = call.all.items;
  Runtime& rt = call.rt;
  if (items.empty() || items.size() > 3 || !call.all.named.empty()) rt.fail("range expected 1 to 3 arguments");
  Range range;
  Int bounds[3] = {0, 0, 1};
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].is(Kind::kUndefined)) fail_undefined(rt, *items[i].undefined);
    bounds[items.size() == 1 ? 1 : i] = as_index(rt, items[i]);
  }
  constexpr Int kLargest = Int(1) << 100;
  for (const Int bound : bounds)
    if (bound > kLargest || bound < -kLargest) rt.fail("a bound of range() is too large");
  range.start = bounds[0], range.stop = bounds[1], range.step = bounds[2];
  if (range.step == 0) rt.fail("range() arg 3 must not be zero");
  if (range.size() > rt.limits().max_range)
    rt.fail("Range too big. The sandbox blocks ranges larger than {}.", rt.limits().max_range);
  Value value = Value::of(Kind::kRange);
  value.range = rt.make<Range>(range);
  return value;
}

// What dict(...) of Python makes of the arguments.
Dict* make_dict(Call& call) {
  Runtime& rt = call.rt;
  Dict* dict = rt.make<Dict>();
  if (call.all.items.size() > 1) rt.fail("expected at most 1 positional argument, got {}", call.all.items.size());
  if (!call.all.items.empty() && call.all.items[0].is(Kind::kUndefined))
    fail_undefined(rt, *call.all.items[0].undefined);
  if (!call.all.items.empty() && call.all.items[0].is(Kind::kDict)) {
    for (const Dict::Entry& entry : *call.all.items[0].dict) dict->set(rt, entry.key, entry.value);
  } else if (!call.all.items.empty()) {
    Iter* iter = iterate(rt, call.all.items[0]);
    for (Value item; iter->next(rt, item);) {
      const List* pair = collect(rt, item);
      if (pair->size != 2) rt.fail("a dictionary is made of pairs, got {} values", pair->size);
      dict->set(rt, (*pair)[0], (*pair)[1]);
    }
  }
  for (const NamedValue& named : call.all.named) dict->set(rt, make_str(rt, named.name, false), named.value);
  return dict;
}

Value global_dict(Call& call) {
  Value value = Value::of(Kind::kDict);
  value.dict = make_dict(call);
  return value;
}

Value global_namespace(Call& call) {
  Value value = Value::of(Kind::kNamespace);
  value.space = call.rt.make<Namespace>(Namespace{make_dict(call)});
  return value;
}

Value global_cycler(Call& call) {
  if (call.all.items.empty() || !call.all.named.empty()) call.rt.fail("at least one item has to be provided");
  List* items = call.rt.make<List>();
  for (const Value& item : call.all.items) items->push(call.rt, item);
  Value value = Value::of(Kind::kCycler);
  value.cycler = call.rt.make<Cycler>(Cycler{items});
  return value;
}

Value global_joiner(Call& call) {
  Value value = Value::of(Kind::kJoiner);
  value.joiner = call.rt.make<Joiner>(Joiner{call.has(0) ? call.args[0] : borrow_str(call.rt, ", ", false)});
  return value;
}

Value global_raise(Call& call) {
  const Value text = text_of(call, 0);
  call.rt.fail_text(std::string(text.str->view()), true);
}

Value global_strftime_now(Call& call) {
  const Str& format = string_arg(call, 0);
  if (format.size > 1000) call.rt.fail("the format of strftime_now is longer than 1000 bytes");
  std::tm time{};
  if (call.rt.now != nullptr) {
    time = *call.rt.now;
  } else {
    const std::time_t seconds = std::time(nullptr);
    localtime_r(&seconds, &time);
  }
  std::string cooked;
  for (std::size_t i = 0; i < format.size; ++i) {
    cooked += format.data[i];
    if (format.data[i] != '%' || i + 1 == format.size) continue;
    ++i;
    if (format.data[i] == 'f') {
      cooked.back() = '0', cooked += "00000";  // microseconds, which the clock here does not tell
    } else if (format.data[i] == 'z' || format.data[i] == 'Z') {
      cooked.pop_back();  // nothing: the time has no zone, as datetime.now() has none
    } else {
      cooked += format.data[i];
    }
  }
  // A mark at the end tells an empty result from one that did not fit.
  cooked += '.';
  std::string out(64 * cooked.size() + 64, '\0');
  const std::size_t size = std::strftime(out.data(), out.size(), cooked.c_str(), &time);
  if (size == 0) call.rt.fail("strftime_now cannot write the format '{}'", format.view());
  return make_str(call.rt, std::string_view(out).substr(0, size - 1), any_content(format));
}

Value global_lipsum(Call& call) { call.rt.fail("lipsum is not available: a prompt must be reproducible"); }

constexpr Method kTable[] = {
    {"range", global_range, 0, {}, true},
    {"dict", global_dict, 0, {}, true},
    {"namespace", global_namespace, 0, {}, true},
    {"cycler", global_cycler, 0, {}, true},
    {"joiner", global_joiner, 0, {"sep"}},
    {"raise_exception", global_raise, 1, {"message"}},
    {"strftime_now", global_strftime_now, 1, {"format"}},
    {"lipsum", global_lipsum, 0, {}, true},
};

}  // namespace

std::span<const Method> globals() { return kTable; }

}  // namespace fathom::jinja
