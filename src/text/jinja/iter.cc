#include "text/jinja/iter.h"

#include "text/jinja/text.h"

namespace fathom::jinja {

namespace {

class ListIter final : public Iter {
 public:
  explicit ListIter(const List* list) : list_(list) {}
  bool next(Runtime& rt, Value& item) override {
    if (at_ >= list_->size) return false;
    rt.step();
    item = (*list_)[at_++];
    return true;
  }

 private:
  const List* list_;
  std::size_t at_ = 0;
};

class ReverseIter final : public Iter {
 public:
  explicit ReverseIter(const List* list) : list_(list), left_(list->size) {}
  bool next(Runtime& rt, Value& item) override {
    if (left_ == 0) return false;
    rt.step();
    item = (*list_)[--left_];
    return true;
  }

 private:
  const List* list_;
  std::size_t left_;
};

class CharIter final : public Iter {
 public:
  explicit CharIter(const Str* text) : text_(text) {}
  bool next(Runtime& rt, Value& item) override {
    if (at_ >= text_->size) return false;
    const std::size_t begin = at_;
    at_ += char_size(text_->view(), at_);
    item = slice_bytes(rt, *text_, begin, at_);
    if (!text_->markup) return true;
    StrBuilder plain(rt);  // characters of markup are plain strings
    plain.append(*item.str);
    item = plain.finish();
    return true;
  }

 private:
  const Str* text_;
  std::size_t at_ = 0;
};

class RangeIter final : public Iter {
 public:
  explicit RangeIter(const Range& range) : at_(range.start), left_(range.size()), step_(range.step) {}
  bool next(Runtime& rt, Value& item) override {
    if (left_ == 0) return false;
    rt.step();
    item = Value::integer(at_);
    at_ += step_, --left_;
    return true;
  }

 private:
  Int at_, left_, step_;
};

class ViewIter final : public Iter {
 public:
  ViewIter(const Dict* dict, ViewKind kind) : dict_(dict), kind_(kind) {}
  bool next(Runtime& rt, Value& item) override {
    if (at_ >= dict_->size) return false;
    rt.step();
    const Dict::Entry& entry = dict_->entries[at_++];
    item = kind_ == ViewKind::kKeys     ? entry.key
           : kind_ == ViewKind::kValues ? entry.value
                                        : make_tuple(rt, {entry.key, entry.value});
    return true;
  }

 private:
  const Dict* dict_;
  ViewKind kind_;
  std::size_t at_ = 0;
};

class EmptyIter final : public Iter {
 public:
  bool next(Runtime&, Value&) override { return false; }
};

// A loop handed on as a value gives its remaining items, each with the loop itself.
class LoopIter final : public Iter {
 public:
  explicit LoopIter(const Value& loop) : loop_(loop) {}
  bool next(Runtime& rt, Value& item) override {
    Value inner;
    if (!loop_.loop->advance(rt, inner)) return false;
    item = make_tuple(rt, {inner, loop_});
    return true;
  }

 private:
  Value loop_;
};

}  // namespace

bool iterable(const Value& value) {
  switch (value.kind) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kRange:
    case Kind::kView:
    case Kind::kGenerator:
    case Kind::kLoop:
      return true;
    default:
      return false;
  }
}

Iter* iterate(Runtime& rt, const Value& value) {
  rt.step();
  switch (value.kind) {
    case Kind::kUndefined:
      return rt.make<EmptyIter>();
    case Kind::kString:
      return rt.make<CharIter>(value.str);
    case Kind::kList:
    case Kind::kTuple:
      return rt.make<ListIter>(value.list);
    case Kind::kDict:
      return rt.make<ViewIter>(value.dict, ViewKind::kKeys);
    case Kind::kRange:
      return rt.make<RangeIter>(*value.range);
    case Kind::kView:
      return rt.make<ViewIter>(value.view->dict, value.view->kind);
    case Kind::kGenerator:
      return value.generator->iter;
    case Kind::kLoop:
      return rt.make<LoopIter>(value);
    default:
      rt.fail("a value of type '{}' cannot be iterated", type_name(value));
  }
}

List* collect(Runtime& rt, const Value& value) {
  List* list = rt.make<List>();
  Iter* iter = iterate(rt, value);
  for (Value item; iter->next(rt, item);) list->push(rt, item);
  return list;
}

Value make_generator(Runtime& rt, Iter* iter, const char* type) {
  Value value = Value::of(Kind::kGenerator);
  value.generator = rt.make<Generator>(Generator{iter, type});
  return value;
}

Value reversed(Runtime& rt, const Value& value) {
  if (value.is(Kind::kGenerator) || value.is(Kind::kLoop) || !iterable(value))
    rt.fail("a value of type '{}' cannot be reversed", type_name(value));
  return make_generator(rt, rt.make<ReverseIter>(collect(rt, value)), "reversed");
}

bool Loop::advance(Runtime& rt, Value& item) {
  if (!after.missing()) {
    item = after;
    after = Value();
  } else if (!iter->next(rt, item)) {
    return false;
  }
  ++index0;
  before = current;
  current = item;
  return true;
}

bool Loop::last(Runtime& rt) {
  if (after.missing()) {
    Value item;
    if (iter->next(rt, item)) after = item;
  }
  return after.missing();
}

Int loop_length(Runtime& rt, Loop& loop) {
  if (loop.length >= 0) return loop.length;
  List* rest = rt.make<List>();
  for (Value item; loop.iter->next(rt, item);) rest->push(rt, item);
  loop.iter = rt.make<ListIter>(rest);
  loop.length = static_cast<Int>(rest->size) + loop.index0 + 1 + (loop.after.missing() ? 0 : 1);
  return loop.length;
}

Value loop_attribute(Runtime& rt, Loop& loop, std::string_view name) {
  if (name == "index") return Value::integer(loop.index0 + 1);
  if (name == "index0") return Value::integer(loop.index0);
  if (name == "first") return Value::boolean(loop.index0 == 0);
  if (name == "last") return Value::boolean(loop.last(rt));
  if (name == "length") return Value::integer(loop_length(rt, loop));
  if (name == "revindex") return Value::integer(loop_length(rt, loop) - loop.index0);
  if (name == "revindex0") return Value::integer(loop_length(rt, loop) - loop.index0 - 1);
  if (name == "depth") return Value::integer(loop.depth0 + 1);
  if (name == "depth0") return Value::integer(loop.depth0);
  if (name == "previtem") return loop.index0 == 0 ? undefined_hint(rt, "there is no previous item") : loop.before;
  if (name == "nextitem") return loop.last(rt) ? undefined_hint(rt, "there is no next item") : loop.after;
  return {};
}

}  // namespace fathom::jinja
