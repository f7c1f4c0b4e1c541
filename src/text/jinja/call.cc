// Calls: collecting arguments, macros, recursive loops and built-in functions.
#include "text/jinja/eval.h"
#include "text/jinja/iter.h"
#include "text/jinja/repr.h"

namespace fathom::jinja {

Evaluator::Collected Evaluator::arguments(const Expr& expr, Scope& scope, const Value* caller) {
  Collected out;
  for (const Expr* item : expr.items) out.items.push_back(eval(*item, scope));
  if (expr.star != nullptr) {
    const Value items = eval(*expr.star, scope);
    Iter* iter = iterate(rt_, items);
    for (Value item; iter->next(rt_, item);) out.items.push_back(item);
  }
  for (const Keyword& keyword : expr.keywords) out.named.push_back({keyword.name, eval(*keyword.value, scope)});
  const auto add = [&](std::string_view name, const Value& value) {
    for (const NamedValue& other : out.named)
      if (other.name == name) rt_.fail("got multiple values for keyword argument '{}'", name);
    out.named.push_back({name, value});
    rt_.step(static_cast<i64>(out.named.size()));
  };
  if (caller != nullptr) add("caller", *caller);
  if (expr.star_star != nullptr) {
    const Value items = eval(*expr.star_star, scope);
    if (!items.is(Kind::kDict)) rt_.fail("argument after ** must be a mapping, not {}", type_name(items));
    for (const Dict::Entry& entry : *items.dict) {
      if (!entry.key.is_string()) rt_.fail("keywords must be strings");
      add(entry.key.str->view(), entry.value);
    }
  }
  return out;
}

Value Evaluator::call(const Value& callee, const Arguments& arguments) {
  Runtime::Nest nest(rt_);
  switch (callee.kind) {
    case Kind::kUndefined:
      fail_undefined(rt_, *callee.undefined);
    case Kind::kMacro:
      return call_macro(*callee.macro, arguments);
    case Kind::kLoop:
      return call_loop(*callee.loop, arguments);
    case Kind::kFunction:
      return invoke(rt_, *callee.function->method, callee.function->self, arguments);
    case Kind::kJoiner:
      if (!arguments.items.empty() || !arguments.named.empty()) rt_.fail("a joiner takes no arguments");
      if (callee.joiner->used) return callee.joiner->separator;
      callee.joiner->used = true;
      return borrow_str(rt_, "", false);
    default:
      rt_.fail("'{}' object is not callable", type_name(callee));
  }
}

Value Evaluator::call_loop(Loop& loop, const Arguments& arguments) {
  if (loop.recursive == nullptr) rt_.fail("The loop must have the 'recursive' marker to be called recursively.");
  if (arguments.items.size() != 1 || !arguments.named.empty()) rt_.fail("loop() takes one argument: the items");
  StrBuilder out(rt_);
  run_loop(*loop.recursive, *loop.scope, arguments.items[0], loop.depth0 + 1, out);
  return out.finish();
}

void Evaluator::bind_parameters(const Stmt& macro, const Arguments& arguments, Scope& scope) {
  const std::string_view name = macro.text.size == 0 ? "caller" : macro.text.view();
  const std::size_t count = macro.parameters.size();
  std::vector<bool> used(arguments.named.size(), false);
  const auto take = [&](std::string_view key) -> const Value* {
    for (std::size_t i = 0; i < arguments.named.size(); ++i)
      if (arguments.named[i].name == key && !used[i]) return used[i] = true, &arguments.named[i].value;
    return nullptr;
  };
  for (std::size_t i = 0; i < count; ++i) {
    Value& slot = scope.slots[macro.parameters[i].slot];
    if (i < arguments.items.size()) {
      slot = arguments.items[i];
    } else if (const Value* value = take(macro.parameters[i].name.view())) {
      slot = *value;
    }
  }
  if (macro.caller_slot >= 0) {
    const Value* caller = take("caller");
    scope.slots[macro.caller_slot] =
        caller != nullptr && !caller->is(Kind::kNone) ? *caller : undefined_hint(rt_, "No caller defined");
  }
  if (macro.kwargs_slot >= 0) {
    Value rest = Value::of(Kind::kDict);
    rest.dict = rt_.make<Dict>();
    for (std::size_t i = 0; i < used.size(); ++i)
      if (!used[i]) rest.dict->set(rt_, make_str(rt_, arguments.named[i].name, false), arguments.named[i].value);
    scope.slots[macro.kwargs_slot] = rest;
  } else {
    for (std::size_t i = 0; i < used.size(); ++i)
      if (!used[i]) rt_.fail("macro '{}' takes no keyword argument '{}'", name, arguments.named[i].name);
  }
  if (macro.varargs_slot >= 0) {
    List* rest = rt_.make<List>();
    for (std::size_t i = count; i < arguments.items.size(); ++i) rest->push(rt_, arguments.items[i]);
    scope.slots[macro.varargs_slot] = Value::list_of(rest, Kind::kTuple);
  } else if (arguments.items.size() > count) {
    rt_.fail("macro '{}' takes not more than {} argument(s)", name, count);
  }
}

Value Evaluator::call_macro(const Macro& macro, const Arguments& arguments) {
  Runtime::Nest nest(rt_);
  const Stmt& stmt = *macro.definition;
  Scope* scope = enter(stmt.frame, macro.scope);
  bind_parameters(stmt, arguments, *scope);
  for (const Parameter& parameter : stmt.parameters) {
    Value& slot = scope->slots[parameter.slot];
    if (!slot.missing()) continue;
    slot = parameter.fallback != nullptr
               ? eval(*parameter.fallback, *scope)
               : undefined_hint(rt_, fmt::format("parameter '{}' was not provided", parameter.name.view()));
  }
  StrBuilder out(rt_);
  exec(stmt.body, *scope, out);
  return out.finish();
}

}  // namespace fathom::jinja
