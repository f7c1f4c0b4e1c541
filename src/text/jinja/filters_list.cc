#include <algorithm>

#include "text/jinja/attr_path.h"
#include "text/jinja/iter.h"
#include "text/jinja/method.h"
#include "text/jinja/ops.h"
#include "text/jinja/replace.h"
#include "text/jinja/repr.h"

namespace fathom::jinja {

namespace {

Value filter_default(Call& call) {
  const Value fallback = call.has(0) ? call.args[0] : borrow_str(call.rt, "", false);
  if (call.self.is(Kind::kUndefined)) return fallback;
  return bool_arg(call, 1, false) && !truthy(call.self) ? fallback : call.self;
}

Value filter_length(Call& call) { return Value::integer(length_of(call.rt, call.self)); }

Value filter_first(Call& call) {
  Value item;
  if (iterate(call.rt, call.self)->next(call.rt, item)) return item;
  return undefined_hint(call.rt, "No first item, sequence was empty.");
}

Value filter_last(Call& call) {
  Runtime& rt = call.rt;
  const Value& self = call.self;
  if (self.is_sequence() && self.list->size != 0) return (*self.list)[self.list->size - 1];
  if (self.is_string() && self.str->size != 0) return char_value(rt, *self.str, self.str->chars - 1);
  Value item;
  if (reversed(rt, self).generator->iter->next(rt, item)) return item;
  return undefined_hint(rt, "No last item, sequence was empty.");
}

Value filter_list(Call& call) { return Value::list_of(collect(call.rt, call.self)); }

Value filter_reverse(Call& call) {
  Runtime& rt = call.rt;
  if (call.self.is_string()) {
    Value step = Value::integer(-1);
    return get_slice(rt, call.self, {}, {}, step);
  }
  if (call.self.is(Kind::kGenerator)) {
    // No sequence, but it can be read to the end and turned around.
    const List* items = collect(rt, call.self);
    List* out = rt.make<List>();
    for (std::size_t i = items->size; i > 0; --i) out->push(rt, (*items)[i - 1]);
    return Value::list_of(out);
  }
  if (!iterable(call.self)) rt.fail("argument must be iterable");
  return reversed(rt, call.self);
}

// The items of `value` mapped along the attribute, for the filters that take one.
List* attributes_of(Runtime& rt, const Value& value, const Value& attribute) {
  const AttributePath path(rt, attribute);
  List* out = rt.make<List>();
  Iter* iter = iterate(rt, value);
  for (Value item; iter->next(rt, item);) out->push(rt, path.get(rt, item, {}));
  return out;
}

Value filter_join(Call& call) {
  const Value separator = call.has(0) ? to_str(call.rt, call.args[0]) : borrow_str(call.rt, "", false);
  if (!call.given(1)) return join_text(call.rt, *separator.str, call.self, false);
  return join_text(call.rt, *separator.str, Value::list_of(attributes_of(call.rt, call.self, call.args[1])), false);
}

Value filter_sum(Call& call) {
  Runtime& rt = call.rt;
  Value total = call.has(1) ? call.args[1] : Value::integer(0);
  if (total.is_string()) rt.fail("sum() can't sum strings [use ''.join(seq) instead]");
  const AttributePath path(rt, call.args[0]);
  Iter* iter = iterate(rt, call.self);
  for (Value item; iter->next(rt, item);) total = binary(rt, BinaryOp::kAdd, total, path.get(rt, item, {}));
  return total;
}

// The lists of keys to sort by, one for each item: several when the attribute names several, apart by commas.
List* sort_keys(Runtime& rt, const List& items, const Value& attribute, bool case_sensitive) {
  List* paths = rt.make<List>();
  if (attribute.is_string()) {
    const Str& text = *attribute.str;
    for (std::size_t begin = 0; begin <= text.size;) {
      const std::size_t end = std::min(text.view().find(',', begin), text.size);
      paths->push(rt, slice_bytes(rt, text, begin, end));
      begin = end + 1;
    }
  } else {
    paths->push(rt, attribute.missing() ? Value::none() : attribute);
  }
  List* keys = rt.make<List>();
  for (const Value& item : items) {
    List* key = rt.make<List>();
    for (const Value& path : *paths) {
      const Value part = AttributePath(rt, path).get(rt, item, {});
      key->push(rt, case_sensitive ? part : ignore_case(rt, part));
    }
    keys->push(rt, Value::list_of(key));
  }
  return keys;
}

Value in_order(Runtime& rt, const List& items, const std::size_t* order) {
  List* out = rt.make<List>();
  for (std::size_t i = 0; i < items.size; ++i) out->push(rt, items[order[i]]);
  return Value::list_of(out);
}

Value filter_sort(Call& call) {
  const List* items = collect(call.rt, call.self);
  const List* keys = sort_keys(call.rt, *items, call.args[2], bool_arg(call, 1, false));
  return in_order(call.rt, *items, sorted_order(call.rt, *keys, bool_arg(call, 0, false)));
}

Value filter_dictsort(Call& call) {
  Runtime& rt = call.rt;
  if (call.self.is(Kind::kUndefined)) fail_undefined(rt, *call.self.undefined);
  if (!call.self.is(Kind::kDict)) rt.fail("dictsort needs a mapping, got '{}'", type_name(call.self));
  bool by_value = false;
  if (call.has(1)) {
    const bool text = call.args[1].is_string();
    by_value = text && call.args[1].str->view() == "value";
    if (!by_value && !(text && call.args[1].str->view() == "key"))
      rt.fail("You can only sort by either \"key\" or \"value\"");
  }
  List* items = rt.make<List>();
  List* keys = rt.make<List>();
  for (const Dict::Entry& entry : *call.self.dict) {
    items->push(rt, make_tuple(rt, {entry.key, entry.value}));
    const Value& key = by_value ? entry.value : entry.key;
    keys->push(rt, bool_arg(call, 0, false) ? key : ignore_case(rt, key));
  }
  return in_order(rt, *items, sorted_order(rt, *keys, bool_arg(call, 2, false)));
}

Value extreme(Call& call, const char* op, int wanted) {
  Runtime& rt = call.rt;
  const AttributePath path(rt, call.args[1]);
  const bool case_sensitive = bool_arg(call, 0, false);
  Value best, best_key;
  Iter* iter = iterate(rt, call.self);
  for (Value item; iter->next(rt, item);) {
    Value key = path.get(rt, item, {});
    if (!case_sensitive) key = ignore_case(rt, key);
    if (!best.missing() && compare(rt, key, best_key, op) != wanted) continue;
    best = item, best_key = key;
  }
  return best.missing() ? undefined_hint(rt, "No aggregated item, sequence was empty.") : best;
}

Value filter_min(Call& call) { return extreme(call, "<", -1); }
Value filter_max(Call& call) { return extreme(call, ">", 1); }

Value filter_items(Call& call) {
  if (call.self.is(Kind::kUndefined)) return make_generator(call.rt, iterate(call.rt, call.self));
  if (!call.self.is(Kind::kDict)) call.rt.fail("Can only get item pairs from a mapping.");
  Value view = Value::of(Kind::kView);
  view.view = call.rt.make<View>(View{call.self.dict, ViewKind::kItems});
  return make_generator(call.rt, iterate(call.rt, view));
}

class BatchIter final : public Iter {
 public:
  BatchIter(Iter* items, Int size, const Value& fill) : items_(items), size_(size), fill_(fill) {}
  bool next(Runtime& rt, Value& out) override {
    List* list = nullptr;
    out = make_list(rt, &list);
    if (!waiting_.missing()) list->push(rt, waiting_);
    waiting_ = Value();
    for (Value item; items_->next(rt, item);) {
      if (static_cast<Int>(list->size) == size_) {
        waiting_ = item;
        return true;
      }
      list->push(rt, item);
    }
    if (list->size == 0) return false;
    if (!fill_.missing() && !fill_.is(Kind::kNone))
      while (static_cast<Int>(list->size) < size_) list->push(rt, fill_);
    return true;
  }

 private:
  Iter* items_;
  Int size_;
  Value fill_, waiting_;
};

Value filter_batch(Call& call) {
  const Int size = int_arg(call, 0, 0);
  return make_generator(call.rt, call.rt.make<BatchIter>(iterate(call.rt, call.self), size, call.args[1]));
}

Value filter_slice(Call& call) {
  Runtime& rt = call.rt;
  const List* items = collect(rt, call.self);
  const Int count = int_arg(call, 0, 0), size = static_cast<Int>(items->size);
  if (count == 0) rt.fail("integer division or modulo by zero");
  List* out = rt.make<List>();
  const Int each = count > 0 ? size / count : 0, longer = count > 0 ? size % count : 0;
  Int at = 0;
  for (Int slice = 0; slice < count; ++slice) {
    List* part = nullptr;
    const Value value = make_list(rt, &part);
    const Int end = at + each + (slice < longer ? 1 : 0);
    for (; at < end; ++at) part->push(rt, (*items)[static_cast<std::size_t>(at)]);
    if (call.given(1) && slice >= longer) part->push(rt, call.args[1]);
    out->push(rt, value);
  }
  return make_generator(rt, iterate(rt, Value::list_of(out)));
}

class UniqueIter final : public Iter {
 public:
  UniqueIter(Runtime& rt, Iter* items, const Value& attribute, bool case_sensitive)
      : items_(items), path_(rt, attribute), case_sensitive_(case_sensitive), seen_(rt.make<Dict>()) {}
  bool next(Runtime& rt, Value& item) override {
    while (items_->next(rt, item)) {
      Value key = path_.get(rt, item, {});
      if (!case_sensitive_) key = ignore_case(rt, key);
      if (seen_->find(rt, key) != nullptr) continue;
      seen_->set(rt, key, Value::none());
      return true;
    }
    return false;
  }

 private:
  Iter* items_;
  AttributePath path_;
  bool case_sensitive_;
  Dict* seen_;
};

Value filter_unique(Call& call) {
  Iter* items = iterate(call.rt, call.self);
  return make_generator(call.rt, call.rt.make<UniqueIter>(call.rt, items, call.args[1], bool_arg(call, 0, false)));
}

Value filter_attr(Call& call) {
  const Value name = call.args[0];
  if (!name.is_string()) call.rt.fail("attribute name must be string, not '{}'", type_name(name));
  if (call.self.is(Kind::kUndefined)) fail_undefined(call.rt, *call.self.undefined);
  const Value found = own_attribute(call.rt, call.self, name);
  return found.missing() ? undefined_member(call.rt, call.self, name) : found;
}

constexpr Method kTable[] = {
    {"default", filter_default, 0, {"default_value", "boolean"}},
    {"d", filter_default, 0, {"default_value", "boolean"}},
    {"length", filter_length},
    {"count", filter_length},
    {"first", filter_first},
    {"last", filter_last},
    {"list", filter_list},
    {"reverse", filter_reverse},
    {"join", filter_join, 0, {"d", "attribute"}},
    {"sum", filter_sum, 0, {"attribute", "start"}},
    {"sort", filter_sort, 0, {"reverse", "case_sensitive", "attribute"}},
    {"dictsort", filter_dictsort, 0, {"case_sensitive", "by", "reverse"}},
    {"min", filter_min, 0, {"case_sensitive", "attribute"}},
    {"max", filter_max, 0, {"case_sensitive", "attribute"}},
    {"items", filter_items},
    {"batch", filter_batch, 1, {"linecount", "fill_with"}},
    {"slice", filter_slice, 1, {"slices", "fill_with"}},
    {"unique", filter_unique, 0, {"case_sensitive", "attribute"}},
    {"attr", filter_attr, 1, {"name"}},
};

}  // namespace

std::span<const Method> sequence_filters() { return kTable; }

}  // namespace fathom::jinja
