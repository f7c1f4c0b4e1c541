#include <algorithm>

#include "text/jinja/attr_path.h"
#include "text/jinja/iter.h"
#include "text/jinja/method.h"
#include "text/jinja/repr.h"

namespace fathom::jinja {

namespace {

// The arguments after the first `skip`, kept for as long as the rendering lasts.
struct KeptArguments {
  const Value* items = nullptr;
  std::size_t count = 0;
  const NamedValue* named = nullptr;
  std::size_t named_count = 0;

  KeptArguments() = default;
  KeptArguments(Runtime& rt, const Arguments& all, std::size_t skip) {
    count = all.items.size() - skip, named_count = all.named.size();
    Value* values = rt.array<Value>(count);
    std::copy(all.items.begin() + static_cast<std::ptrdiff_t>(skip), all.items.end(), values);
    NamedValue* names = rt.array<NamedValue>(named_count);
    std::copy(all.named.begin(), all.named.end(), names);
    items = values, named = names;
  }
  Arguments get() const { return {{items, count}, {named, named_count}}; }
};

const Value* named_argument(const Call& call, std::string_view name) {
  for (const NamedValue& named : call.all.named)
    if (named.name == name) return &named.value;
  return nullptr;
}

std::string_view name_of(Call& call, std::size_t i, const char* what) {
  const Value& name = call.all.items[i];
  if (!name.is_string()) call.rt.fail("No {} named {}.", what, repr(call.rt, name).str->view());
  return name.str->view();
}

class MapAttributeIter final : public Iter {
 public:
  MapAttributeIter(Iter* items, const AttributePath& path, const Value& fallback)
      : items_(items), path_(path), fallback_(fallback) {}
  bool next(Runtime& rt, Value& item) override {
    if (!items_->next(rt, item)) return false;
    item = path_.get(rt, item, fallback_);
    return true;
  }

 private:
  Iter* items_;
  AttributePath path_;
  Value fallback_;
};

class MapFilterIter final : public Iter {
 public:
  MapFilterIter(Iter* items, std::string_view filter, const KeptArguments& arguments)
      : items_(items), filter_(filter), arguments_(arguments) {}
  bool next(Runtime& rt, Value& item) override {
    Runtime::Nest nest(rt);
    if (!items_->next(rt, item)) return false;
    item = apply_filter(rt, filter_, item, arguments_.get());
    return true;
  }

 private:
  Iter* items_;
  std::string_view filter_;
  KeptArguments arguments_;
};

Value filter_map(Call& call) {
  Runtime& rt = call.rt;
  if (!truthy(call.self)) return make_generator(rt, iterate(rt, Value::list_of(rt.make<List>())));
  const Value* attribute = named_argument(call, "attribute");
  if (call.all.items.empty() && attribute != nullptr) {
    const Value* fallback = named_argument(call, "default");
    if (call.all.named.size() > (fallback != nullptr ? 2u : 1u)) rt.fail("map got an unexpected keyword argument");
    return make_generator(rt, rt.make<MapAttributeIter>(iterate(rt, call.self), AttributePath(rt, *attribute),
                                                        fallback == nullptr ? Value() : *fallback));
  }
  if (call.all.items.empty()) rt.fail("map requires a filter argument");
  return make_generator(
      rt, rt.make<MapFilterIter>(iterate(rt, call.self), name_of(call, 0, "filter"), KeptArguments(rt, call.all, 1)));
}

// Items for which a test holds (or does not), of the items themselves or of one of their attributes.
class SelectIter final : public Iter {
 public:
  struct Rule {
    AttributePath path;
    std::string_view test;  // empty: truth
    KeptArguments arguments;
    bool wanted = true;
  };
  SelectIter(Iter* items, const Rule& rule) : items_(items), rule_(rule) {}
  bool next(Runtime& rt, Value& item) override {
    Runtime::Nest nest(rt);
    while (items_->next(rt, item)) {
      const Value tested = rule_.path.get(rt, item, {});
      const bool holds =
          rule_.test.empty() ? truthy(tested) : apply_test(rt, rule_.test, tested, rule_.arguments.get());
      if (holds == rule_.wanted) return true;
    }
    return false;
  }

 private:
  Iter* items_;
  Rule rule_;
};

Value select(Call& call, bool wanted, bool by_attribute) {
  Runtime& rt = call.rt;
  if (!truthy(call.self)) return make_generator(rt, iterate(rt, Value::list_of(rt.make<List>())));
  SelectIter::Rule rule;
  rule.wanted = wanted;
  std::size_t used = 0;
  if (by_attribute) {
    if (call.all.items.empty()) rt.fail("Missing parameter for attribute name");
    rule.path = AttributePath(rt, call.all.items[used++]);
  }
  if (used < call.all.items.size()) {
    rule.test = name_of(call, used++, "test");
    rule.arguments = KeptArguments(rt, call.all, used);
  }
  return make_generator(rt, rt.make<SelectIter>(iterate(rt, call.self), rule));
}

Value filter_select(Call& call) { return select(call, true, false); }
Value filter_reject(Call& call) { return select(call, false, false); }
Value filter_selectattr(Call& call) { return select(call, true, true); }
Value filter_rejectattr(Call& call) { return select(call, false, true); }

Value filter_groupby(Call& call) {
  Runtime& rt = call.rt;
  const AttributePath path(rt, call.args[0]);
  const bool case_sensitive = bool_arg(call, 2, false);
  const List* items = collect(rt, call.self);
  List* keys = rt.make<List>();
  for (const Value& item : *items) {
    const Value key = path.get(rt, item, call.args[1]);
    keys->push(rt, case_sensitive ? key : ignore_case(rt, key));
  }
  const std::size_t* order = sorted_order(rt, *keys, false);
  List* groups = rt.make<List>();
  List* group = nullptr;
  for (std::size_t i = 0; i < items->size; ++i) {
    const Value& item = (*items)[order[i]];
    const Value& key = (*keys)[order[i]];
    if (group == nullptr || !equals(rt, (*keys)[order[i - 1]], key)) {
      const Value list = make_list(rt, &group);
      // The group is named by its first member, in that member's own spelling.
      const Value pair = make_tuple(rt, {case_sensitive ? key : path.get(rt, item, call.args[1]), list});
      pair.list->group = true;
      groups->push(rt, pair);
    }
    group->push(rt, item);
  }
  return Value::list_of(groups);
}

constexpr Method kTable[] = {
    {"map", filter_map, 0, {}, true},
    {"select", filter_select, 0, {}, true},
    {"reject", filter_reject, 0, {}, true},
    {"selectattr", filter_selectattr, 0, {}, true},
    {"rejectattr", filter_rejectattr, 0, {}, true},
    {"groupby", filter_groupby, 1, {"attribute", "default", "case_sensitive"}},
};

}  // namespace

std::span<const Method> selection_filters() { return kTable; }

}  // namespace fathom::jinja
