// Lists, dictionaries, tuples and the targets of assignments.
#include "text/jinja/parser.h"

namespace fathom::jinja {

Expr* Parser::list() {
  Expr* node = make(ExprKind::kList, next().pos);
  while (!is_op("]")) {
    if (!node->items.empty()) expect_op(",");
    if (is_op("]")) break;
    node->items.push_back(expression());
  }
  expect_op("]");
  return done(node);
}

Expr* Parser::dict() {
  Expr* node = make(ExprKind::kDict, next().pos);
  while (!is_op("}")) {
    if (!node->items.empty()) expect_op(",");
    if (is_op("}")) break;
    node->items.push_back(expression());
    expect_op(":");
    node->items.push_back(expression());
  }
  expect_op("}");
  return done(node);
}

Expr* Parser::tuple_item(const TupleRules& rules) {
  if (!rules.targets) return expression(rules.with_condition);
  Level level(*this);
  return primary(rules.with_namespace);
}

Expr* Parser::tuple(const TupleRules& rules) {
  const auto at_end = [&] { return is(TokenKind::kVariableEnd) || is(TokenKind::kBlockEnd) || is_op(")"); };
  const std::uint32_t pos = current().pos;
  std::vector<Expr*> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) expect_op(",");
    if (at_end()) break;
    items.push_back(tuple_item(rules));
    if (!is_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!items.empty()) return items[0];
    if (!rules.parentheses) fail(current().pos, "Expected an expression, got " + describe(current()));
  }
  Expr* node = make(ExprKind::kTuple, pos);
  node->items = std::move(items);
  return done(node);
}

void Parser::check_target(const Expr& node) {
  if (node.kind == ExprKind::kName || node.kind == ExprKind::kNsRef) return;
  if (node.kind != ExprKind::kTuple) fail(node.pos, "can't assign to this expression");
  for (const Expr* item : node.items) check_target(*item);
}

Expr* Parser::target(bool with_namespace) {
  Expr* node = tuple({.targets = true, .with_namespace = with_namespace});
  check_target(*node);
  return node;
}

}  // namespace fathom::jinja
