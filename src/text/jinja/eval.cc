#include "text/jinja/eval.h"

#include "text/jinja/iter.h"
#include "text/jinja/ops.h"
#include "text/jinja/repr.h"

namespace fathom::jinja {

Value Evaluator::run() {
  Scope* scope = enter(template_.frame, nullptr);
  StrBuilder out(rt_, rt_.limits().max_output);
  exec(template_.body, *scope, out);
  return out.finish();
}

Value Evaluator::from_context(const Str& name) {
  if (const Value* found = variables_.find(rt_, Value::string(&name))) return *found;
  if (const Method* method = find_global(name.view())) return bind_method(rt_, *method, {});
  return {};
}

void Evaluator::load(const Frame& frame, Scope& scope) {
  for (const Load& load : frame.loads) {
    Value& slot = scope.slots[load.slot];
    switch (load.how) {
      case Load::How::kParameter:
        break;
      case Load::How::kUndefined:
        slot = Value();
        break;
      case Load::How::kContext:
        slot = from_context(load.name);
        break;
      case Load::How::kOuter: {
        const Scope* outer = scope.parent;
        for (std::int32_t i = 0; i < load.hops; ++i) outer = outer->parent;
        slot = outer->slots[load.outer_slot];
        break;
      }
    }
  }
}

Scope* Evaluator::enter(const Frame& frame, Scope* parent) {
  rt_.step();
  Scope* scope = rt_.make<Scope>();
  scope->slots = rt_.array<Value>(static_cast<std::size_t>(frame.size));
  scope->parent = parent;
  load(frame, *scope);
  return scope;
}

Value& Evaluator::slot(Scope& scope, const Expr& name) {
  Scope* at = &scope;
  for (std::int32_t i = 0; i < name.hops; ++i) at = at->parent;
  return at->slots[name.slot];
}

Evaluator::Flow Evaluator::exec(const Body& body, Scope& scope, StrBuilder& out) {
  for (const Stmt* stmt : body) {
    const Flow flow = exec(*stmt, scope, out);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Evaluator::Flow Evaluator::exec(const Stmt& stmt, Scope& scope, StrBuilder& out) {
  Runtime::Nest nest(rt_);
  rt_.at(stmt.pos);
  rt_.step();
  switch (stmt.kind) {
    case StmtKind::kData:
      out.append(stmt.text.view());
      return Flow::kNormal;
    case StmtKind::kOutput:
      append_str(out, rt_, eval(*stmt.expr, scope));
      return Flow::kNormal;
    case StmtKind::kIf:
      return exec_if(stmt, scope, out);
    case StmtKind::kFor:
      return exec_for(stmt, scope, out);
    case StmtKind::kSet: {
      check_namespaces(*stmt.target, scope);
      const Value value = eval(*stmt.expr, scope);
      rt_.at(stmt.pos);
      assign(*stmt.target, value, scope);
      return Flow::kNormal;
    }
    case StmtKind::kSetBlock:
      return exec_set_block(stmt, scope);
    case StmtKind::kMacro:
      define_macro(stmt, scope);
      return Flow::kNormal;
    case StmtKind::kCallBlock:
      exec_call_block(stmt, scope, out);
      return Flow::kNormal;
    case StmtKind::kFilterBlock:
      return exec_filter_block(stmt, scope, out);
    case StmtKind::kWith:
      return exec_with(stmt, scope, out);
    case StmtKind::kScope:
      return exec(stmt.body, *enter(stmt.frame, &scope), out);
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

Evaluator::Flow Evaluator::exec_if(const Stmt& stmt, Scope& scope, StrBuilder& out) {
  for (const Branch& branch : stmt.branches)
    if (branch.condition == nullptr || truthy(eval(*branch.condition, scope))) return exec(branch.body, scope, out);
  return Flow::kNormal;
}

// What the names of a target hold: tuples for tuples, as Jinja hands on the items that passed a test.
Value Evaluator::read_target(const Expr& target, Scope& scope) {
  if (target.kind == ExprKind::kName) return slot(scope, target);
  List* items = rt_.make<List>();
  for (const Expr* item : target.items) items->push(rt_, read_target(*item, scope));
  return Value::list_of(items, Kind::kTuple);
}

// The items of a loop that pass its `if`, found one by one as the loop asks for them.
class TestedIter final : public Iter {
 public:
  TestedIter(Evaluator& evaluator, const Stmt& stmt, Scope& scope, Iter* items)
      : evaluator_(evaluator), stmt_(stmt), scope_(*evaluator.enter(stmt.test_frame, &scope)), items_(items) {}
  bool next(Runtime& rt, Value& item) override {
    Runtime::Nest nest(rt);
    while (items_->next(rt, item)) {
      evaluator_.assign(*stmt_.target, item, scope_);
      if (!truthy(evaluator_.eval(*stmt_.test, scope_))) continue;
      item = evaluator_.read_target(*stmt_.target, scope_);
      return true;
    }
    return false;
  }

 private:
  Evaluator& evaluator_;
  const Stmt& stmt_;
  Scope& scope_;
  Iter* items_;
};

Evaluator::Flow Evaluator::exec_for(const Stmt& stmt, Scope& scope, StrBuilder& out) {
  const Value items = eval(*stmt.expr, scope);
  rt_.at(stmt.pos);
  const Flow flow = run_loop(stmt, scope, items, 0, out);
  return stmt.recursive ? Flow::kNormal : flow;
}

Evaluator::Flow Evaluator::run_loop(const Stmt& stmt, Scope& scope, const Value& items, Int depth0, StrBuilder& out) {
  Loop* loop = rt_.make<Loop>();
  loop->iter = iterate(rt_, items);
  if (stmt.test != nullptr) {
    loop->iter = rt_.make<TestedIter>(*this, stmt, scope, loop->iter);
  } else if (!items.is(Kind::kGenerator) && !items.is(Kind::kLoop)) {
    loop->length = length_of(rt_, items);
  }
  loop->depth0 = depth0;
  loop->recursive = stmt.recursive ? &stmt : nullptr;
  loop->scope = &scope;
  Value loop_value = Value::of(Kind::kLoop);
  loop_value.loop = loop;

  Scope* inner = rt_.make<Scope>();
  inner->slots = rt_.array<Value>(static_cast<std::size_t>(stmt.frame.size));
  inner->parent = &scope;
  bool ran_through = false;
  for (Value item; loop->advance(rt_, item);) {
    rt_.at(stmt.pos);
    inner->slots[stmt.slot] = loop_value;
    assign(*stmt.target, item, *inner);
    load(stmt.frame, *inner);
    const Flow flow = exec(stmt.body, *inner, out);
    if (flow == Flow::kBreak) break;
    // Jinja notes that the loop has run at the end of a pass, so `continue` and `break` leave the mark unset.
    if (flow == Flow::kNormal) ran_through = true;
  }
  std::fill_n(inner->slots, stmt.frame.size, Value());
  if (ran_through || stmt.other.empty()) return Flow::kNormal;
  return exec(stmt.other, *enter(stmt.else_frame, &scope), out);
}

Evaluator::Flow Evaluator::exec_set_block(const Stmt& stmt, Scope& scope) {
  Scope* inner = enter(stmt.frame, &scope);
  StrBuilder text(rt_);
  const Flow flow = exec(stmt.body, *inner, text);
  if (flow != Flow::kNormal) return flow;
  check_namespaces(*stmt.target, scope);
  Value value = text.finish();
  if (stmt.expr != nullptr) value = eval(*stmt.expr, *inner, &value);
  assign(*stmt.target, value, scope);
  return Flow::kNormal;
}

Evaluator::Flow Evaluator::exec_filter_block(const Stmt& stmt, Scope& scope, StrBuilder& out) {
  Scope* inner = enter(stmt.frame, &scope);
  StrBuilder text(rt_);
  const Flow flow = exec(stmt.body, *inner, text);
  if (flow != Flow::kNormal) return flow;
  const Value value = text.finish();
  append_text(out, eval(*stmt.expr, *inner, &value));
  return Flow::kNormal;
}

Evaluator::Flow Evaluator::exec_with(const Stmt& stmt, Scope& scope, StrBuilder& out) {
  Scope* inner = enter(stmt.frame, &scope);
  for (std::size_t i = 0; i < stmt.targets.size(); ++i) {
    const Value value = eval(*stmt.values[i], scope);
    assign(*stmt.targets[i], value, *inner);
  }
  return exec(stmt.body, *inner, out);
}

void Evaluator::define_macro(const Stmt& stmt, Scope& scope) {
  Value value = Value::of(Kind::kMacro);
  value.macro = rt_.make<Macro>(Macro{&stmt, &scope});
  scope.slots[stmt.slot] = value;
}

void Evaluator::exec_call_block(const Stmt& stmt, Scope& scope, StrBuilder& out) {
  Value caller = Value::of(Kind::kMacro);
  caller.macro = rt_.make<Macro>(Macro{&stmt, &scope});
  const Value value = stmt.generation ? call_macro(*caller.macro, {}) : eval_call(*stmt.expr, scope, &caller);
  append_text(out, value);
}

void Evaluator::append_text(StrBuilder& out, const Value& value) {
  if (!value.is_string()) rt_.fail("this block must give text, not a value of type '{}'", type_name(value));
  out.append(*value.str);
}

// Jinja refuses `a.b = ...` where a is no namespace before it evaluates the right side.
void Evaluator::check_namespaces(const Expr& target, Scope& scope) {
  if (target.kind == ExprKind::kTuple) {
    for (const Expr* item : target.items) check_namespaces(*item, scope);
  } else if (target.kind == ExprKind::kNsRef && !slot(scope, target).is(Kind::kNamespace)) {
    rt_.at(target.pos);
    rt_.fail("cannot assign attribute on non-namespace object '{}'", target.text.view());
  }
}

void Evaluator::assign(const Expr& target, const Value& value, Scope& scope) {
  if (target.kind == ExprKind::kName) {
    slot(scope, target) = value;
    return;
  }
  if (target.kind == ExprKind::kNsRef) {
    slot(scope, target).space->attributes->set(rt_, target.constant, value);
    return;
  }
  rt_.at(target.pos);
  const List* items = collect(rt_, value);
  const std::size_t wanted = target.items.size();
  if (items->size < wanted) rt_.fail("not enough values to unpack (expected {}, got {})", wanted, items->size);
  if (items->size > wanted) rt_.fail("too many values to unpack (expected {})", wanted);
  for (std::size_t i = 0; i < wanted; ++i) assign(*target.items[i], (*items)[i], scope);
}

}  // namespace fathom::jinja
