#include "text/jinja/eval.h"
#include "text/jinja/iter.h"
#include "text/jinja/ops.h"
#include "text/jinja/repr.h"

namespace fathom::jinja {

Value Evaluator::eval(const Expr& expr, Scope& scope, const Value* block) {
  Runtime::Nest nest(rt_);
  rt_.step();
  switch (expr.kind) {
    case ExprKind::kConst:
      return expr.constant;
    case ExprKind::kName:
    case ExprKind::kNsRef:
      return eval_name(expr, scope);
    case ExprKind::kList:
      return eval_items(expr, scope, Kind::kList);
    case ExprKind::kTuple:
      return eval_items(expr, scope, Kind::kTuple);
    case ExprKind::kDict:
      return eval_dict(expr, scope);
    case ExprKind::kGetAttr: {
      const Value object = eval(*expr.left, scope, block);
      rt_.at(expr.pos);
      return get_attribute(rt_, object, expr.constant);
    }
    case ExprKind::kGetItem:
      return eval_item(expr, scope);
    case ExprKind::kSlice:
      return {};
    case ExprKind::kCall:
      return eval_call(expr, scope, nullptr);
    case ExprKind::kFilter:
      return eval_filter(expr, scope, block);
    case ExprKind::kTest:
      return eval_test(expr, scope);
    case ExprKind::kNot:
      return Value::boolean(!truthy(eval(*expr.left, scope)));
    case ExprKind::kNegate:
    case ExprKind::kPositive: {
      const Value value = eval(*expr.left, scope);
      rt_.at(expr.pos);
      return expr.kind == ExprKind::kNegate ? negate(rt_, value) : positive(rt_, value);
    }
    case ExprKind::kBinary: {
      const Value left = eval(*expr.left, scope);
      const Value right = eval(*expr.right, scope);
      rt_.at(expr.pos);
      return binary(rt_, expr.op, left, right);
    }
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      const Value left = eval(*expr.left, scope);
      return truthy(left) == (expr.kind == ExprKind::kOr) ? left : eval(*expr.right, scope);
    }
    case ExprKind::kConcat:
      return eval_concat(expr, scope);
    case ExprKind::kCompare:
      return eval_compare(expr, scope);
    case ExprKind::kCondition:
      return eval_condition(expr, scope);
  }
  return {};
}

Value Evaluator::eval_name(const Expr& expr, Scope& scope) {
  const Value& value = slot(scope, expr);
  return value.missing() ? undefined_variable(rt_, &expr.text) : value;
}

Value Evaluator::eval_items(const Expr& expr, Scope& scope, Kind kind) {
  List* list = rt_.make<List>();
  for (const Expr* item : expr.items) list->push(rt_, eval(*item, scope));
  return Value::list_of(list, kind);
}

Value Evaluator::eval_dict(const Expr& expr, Scope& scope) {
  Value value = Value::of(Kind::kDict);
  value.dict = rt_.make<Dict>();
  for (std::size_t i = 0; i + 1 < expr.items.size(); i += 2) {
    const Value key = eval(*expr.items[i], scope);
    const Value item = eval(*expr.items[i + 1], scope);
    rt_.at(expr.items[i]->pos);
    value.dict->set(rt_, key, item);
  }
  return value;
}

Value Evaluator::eval_item(const Expr& expr, Scope& scope) {
  const Value object = eval(*expr.left, scope);
  if (expr.right->kind != ExprKind::kSlice) {
    const Value key = eval(*expr.right, scope);
    rt_.at(expr.pos);
    return get_item(rt_, object, key);
  }
  Value bounds[3];
  for (std::size_t i = 0; i < 3; ++i)
    if (const Expr* bound = expr.right->items[i]) bounds[i] = eval(*bound, scope);
  rt_.at(expr.pos);
  return get_slice(rt_, object, bounds[0], bounds[1], bounds[2]);
}

Value Evaluator::eval_filter(const Expr& expr, Scope& scope, const Value* block) {
  const Value self = expr.left == nullptr ? *block : eval(*expr.left, scope, block);
  const Collected args = arguments(expr, scope);
  rt_.at(expr.pos);
  return apply_filter(rt_, expr.text.view(), self, args.get());
}

Value Evaluator::eval_test(const Expr& expr, Scope& scope) {
  const Value self = eval(*expr.left, scope);
  const Collected args = arguments(expr, scope);
  rt_.at(expr.pos);
  return Value::boolean(apply_test(rt_, expr.text.view(), self, args.get()));
}

Value Evaluator::eval_concat(const Expr& expr, Scope& scope) {
  StrBuilder out(rt_);
  for (const Expr* item : expr.items) append_str(out, rt_, eval(*item, scope));
  return out.finish();
}

Value Evaluator::eval_compare(const Expr& expr, Scope& scope) {
  Value left = eval(*expr.left, scope);
  for (std::size_t i = 0; i < expr.ops.size(); ++i) {
    const Value right = eval(*expr.items[i], scope);
    rt_.at(expr.pos);
    if (!compare_op(rt_, expr.ops[i], left, right)) return Value::boolean(false);
    left = right;
  }
  return Value::boolean(true);
}

Value Evaluator::eval_condition(const Expr& expr, Scope& scope) {
  if (truthy(eval(*expr.left, scope))) return eval(*expr.items[0], scope);
  if (expr.right != nullptr) return eval(*expr.right, scope);
  return undefined_hint(rt_, "the inline if-expression evaluated to false and no else section was defined.");
}

Value Evaluator::eval_call(const Expr& expr, Scope& scope, const Value* caller) {
  const Value callee = eval(*expr.left, scope);
  const Collected args = arguments(expr, scope, caller);
  rt_.at(expr.pos);
  return call(callee, args.get());
}

}  // namespace fathom::jinja
