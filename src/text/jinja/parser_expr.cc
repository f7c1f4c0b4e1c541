#include "text/jinja/parser.h"

#include <algorithm>

#include "text/jinja/text.h"

namespace fathom::jinja {

namespace {
constexpr std::uint32_t kMaxTreeDepth = 1000;
}

Expr* Parser::make(ExprKind kind, std::uint32_t pos) {
  Expr& node = out_.exprs.emplace_back();
  node.kind = kind, node.pos = pos;
  return &node;
}

Expr* Parser::done(Expr* node) {
  std::uint32_t deepest = 0;
  const auto see = [&](const Expr* child) {
    if (child != nullptr) deepest = std::max(deepest, child->depth);
  };
  see(node->left), see(node->right), see(node->star), see(node->star_star);
  for (const Expr* item : node->items) see(item);
  for (const Keyword& keyword : node->keywords) see(keyword.value);
  node->depth = deepest + 1;
  if (node->depth > kMaxTreeDepth) fail(node->pos, fmt::format("an expression of more than {} levels", kMaxTreeDepth));
  return node;
}

Expr* Parser::binary(BinaryOp op, Expr* left, Expr* right, std::uint32_t pos) {
  Expr* node = make(ExprKind::kBinary, pos);
  node->op = op, node->left = left, node->right = right;
  return done(node);
}

Str Parser::keep(std::string text) {
  const std::string& kept = out_.texts.emplace_back(std::move(text));
  return Str{.data = kept.data(), .size = kept.size(), .chars = count_chars(kept)};
}

Value Parser::keep_string(std::string text) { return Value::string(&out_.strings.emplace_back(keep(std::move(text)))); }

Expr* Parser::expression(bool with_condition) {
  Level level(*this);
  return with_condition ? condition() : disjunction();
}

Expr* Parser::condition() {
  Expr* value = disjunction();
  while (is_name("if")) {
    Expr* node = make(ExprKind::kCondition, next().pos);
    node->items = {value};
    node->left = disjunction();
    if (skip_name("else")) {
      Level level(*this);
      node->right = condition();
    }
    value = done(node);
  }
  return value;
}

Expr* Parser::disjunction() {
  Expr* left = conjunction();
  while (is_name("or")) {
    Expr* node = make(ExprKind::kOr, next().pos);
    node->left = left, node->right = conjunction();
    left = done(node);
  }
  return left;
}

Expr* Parser::conjunction() {
  Expr* left = negation();
  while (is_name("and")) {
    Expr* node = make(ExprKind::kAnd, next().pos);
    node->left = left, node->right = negation();
    left = done(node);
  }
  return left;
}

Expr* Parser::negation() {
  if (!is_name("not")) return comparison();
  Level level(*this);
  Expr* node = make(ExprKind::kNot, next().pos);
  node->left = negation();
  return done(node);
}

Expr* Parser::comparison() {
  static constexpr std::pair<std::string_view, CompareOp> kOps[] = {{"==", CompareOp::kEq}, {"!=", CompareOp::kNe},
                                                                    {"<", CompareOp::kLt},  {"<=", CompareOp::kLe},
                                                                    {">", CompareOp::kGt},  {">=", CompareOp::kGe}};
  Expr* left = sum();
  Expr* node = nullptr;
  while (true) {
    const std::uint32_t pos = current().pos;
    const auto* op = std::find_if(std::begin(kOps), std::end(kOps), [&](const auto& row) { return is_op(row.first); });
    CompareOp which = CompareOp::kIn;
    if (op != std::end(kOps)) {
      next(), which = op->second;
    } else if (is_name("in")) {
      next();
    } else if (is_name("not") && peek().kind == TokenKind::kName && peek().text == "in") {
      next(), next(), which = CompareOp::kNotIn;
    } else {
      break;
    }
    if (node == nullptr) node = make(ExprKind::kCompare, pos), node->left = left;
    node->ops.push_back(which);
    node->items.push_back(sum());
  }
  return node == nullptr ? left : done(node);
}

Expr* Parser::sum() {
  Expr* left = concatenation();
  while (is_op("+") || is_op("-")) {
    const BinaryOp op = is_op("+") ? BinaryOp::kAdd : BinaryOp::kSub;
    const std::uint32_t pos = next().pos;
    left = binary(op, left, concatenation(), pos);
  }
  return left;
}

Expr* Parser::concatenation() {
  Expr* first = product();
  if (!is_op("~")) return first;
  Expr* node = make(ExprKind::kConcat, current().pos);
  node->items = {first};
  while (skip_op("~")) node->items.push_back(product());
  return done(node);
}

Expr* Parser::product() {
  static constexpr std::pair<std::string_view, BinaryOp> kOps[] = {
      {"*", BinaryOp::kMul}, {"/", BinaryOp::kDiv}, {"//", BinaryOp::kFloorDiv}, {"%", BinaryOp::kMod}};
  Expr* left = power();
  while (true) {
    const auto* op = std::find_if(std::begin(kOps), std::end(kOps), [&](const auto& row) { return is_op(row.first); });
    if (op == std::end(kOps)) return left;
    const std::uint32_t pos = next().pos;
    left = binary(op->second, left, power(), pos);
  }
}

Expr* Parser::power() {
  Expr* left = unary();
  while (is_op("**")) {
    const std::uint32_t pos = next().pos;
    left = binary(BinaryOp::kPow, left, unary(), pos);
  }
  return left;
}

Expr* Parser::unary(bool with_filter) {
  Level level(*this);
  Expr* node = nullptr;
  if (is_op("-") || is_op("+")) {
    node = make(is_op("-") ? ExprKind::kNegate : ExprKind::kPositive, current().pos);
    next();
    node->left = unary(false);
    node = done(node);
  } else {
    node = primary();
  }
  node = postfix(node);
  return with_filter ? filters_and_tests(node) : node;
}

Expr* Parser::name_or_constant(bool with_namespace) {
  const Token& token = next();
  const std::string& name = token.text;
  Expr* node = make(ExprKind::kConst, token.pos);
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    node->constant = Value::boolean(name[0] == 't' || name[0] == 'T');
  } else if (name == "none" || name == "None") {
    node->constant = Value::none();
  } else {
    node->kind = ExprKind::kName, node->text = keep(name);
    if (with_namespace && skip_op(".")) {
      node->kind = ExprKind::kNsRef;
      node->constant = keep_string(expect(TokenKind::kName, "name").text);
    }
  }
  return node;
}

Expr* Parser::string_constant() {
  Expr* node = make(ExprKind::kConst, current().pos);
  std::string text;
  while (is(TokenKind::kString)) text += next().text;
  node->constant = keep_string(std::move(text));
  return node;
}

Expr* Parser::primary(bool with_namespace) {
  const Token& token = current();
  if (token.kind == TokenKind::kName) return name_or_constant(with_namespace);
  if (token.kind == TokenKind::kString) return string_constant();
  if (token.kind == TokenKind::kInteger || token.kind == TokenKind::kFloat) {
    Expr* node = make(ExprKind::kConst, token.pos);
    node->constant = token.kind == TokenKind::kInteger ? Value::integer(token.integer) : Value::real(token.real);
    next();
    return node;
  }
  if (skip_op("(")) {
    Expr* node = tuple({.parentheses = true});
    expect_op(")");
    return node;
  }
  if (is_op("[")) return list();
  if (is_op("{")) return dict();
  fail(token.pos, "unexpected " + describe(token));
}

Expr* Parser::postfix(Expr* node) {
  while (true) {
    if (is_op(".") || is_op("[")) {
      node = subscript(node);
    } else if (is_op("(")) {
      node = call(node);
    } else {
      return node;
    }
  }
}

Expr* Parser::filters_and_tests(Expr* node) {
  while (true) {
    if (is_op("|")) {
      node = filter_chain(node);
    } else if (is_name("is")) {
      node = test(node);
    } else if (is_op("(")) {
      node = call(node);
    } else {
      return node;
    }
  }
}

Expr* Parser::subscript(Expr* left) {
  const Token& mark = next();
  Expr* node = make(ExprKind::kGetItem, mark.pos);
  node->left = left;
  if (mark.text == ".") {
    const Token& attribute = next();
    if (attribute.kind == TokenKind::kName) {
      node->kind = ExprKind::kGetAttr, node->constant = keep_string(attribute.text);
      return done(node);
    }
    if (attribute.kind != TokenKind::kInteger) fail(attribute.pos, "expected name or number");
    node->right = make(ExprKind::kConst, attribute.pos);
    node->right->constant = Value::integer(attribute.integer);
    return done(node);
  }
  std::vector<Expr*> items;
  while (!is_op("]")) {
    if (!items.empty()) expect_op(",");
    items.push_back(subscript_item());
  }
  next();
  if (items.size() == 1) {
    node->right = items[0];
  } else {
    for (const Expr* item : items)
      if (item->kind == ExprKind::kSlice) fail(item->pos, "a slice cannot stand in a list of keys");
    node->right = make(ExprKind::kTuple, mark.pos);
    node->right->items = std::move(items);
    done(node->right);
  }
  return done(node);
}

Expr* Parser::subscript_item() {
  Expr* start = nullptr;
  const std::uint32_t pos = current().pos;
  if (!is_op(":")) {
    start = expression();
    if (!is_op(":")) return start;
  }
  next();
  Expr* node = make(ExprKind::kSlice, pos);
  const auto part = [&]() -> Expr* { return is_op(":") || is_op("]") || is_op(",") ? nullptr : expression(); };
  Expr* stop = part();
  Expr* step = skip_op(":") ? part() : nullptr;
  node->items = {start, stop, step};
  return done(node);
}

void Parser::arguments(Expr& node) {
  const std::uint32_t pos = current().pos;
  expect_op("(");
  const auto ensure = [&](bool right) {
    if (!right) fail(pos, "invalid syntax for function call expression");
  };
  bool comma = false;
  while (!is_op(")")) {
    if (comma) expect_op(",");
    if (is_op(")")) break;
    comma = true;
    if (skip_op("*")) {
      ensure(node.star == nullptr && node.star_star == nullptr);
      node.star = expression();
    } else if (skip_op("**")) {
      ensure(node.star_star == nullptr);
      node.star_star = expression();
    } else if (is(TokenKind::kName) && peek().kind == TokenKind::kOperator && peek().text == "=") {
      ensure(node.star_star == nullptr);
      std::string name = next().text;
      next();
      for (const Keyword& other : node.keywords)
        if (other.name == name) fail(current().pos, fmt::format("keyword argument repeated: {}", name));
      node.keywords.push_back({std::move(name), expression()});
    } else {
      ensure(node.star == nullptr && node.star_star == nullptr && node.keywords.empty());
      node.items.push_back(expression());
    }
  }
  expect_op(")");
}

Expr* Parser::call(Expr* callee) {
  Expr* node = make(ExprKind::kCall, current().pos);
  node->left = callee;
  arguments(*node);
  return done(node);
}

Expr* Parser::filter(Expr* left) {
  const Token& name = expect(TokenKind::kName, "name");
  Expr* node = make(ExprKind::kFilter, name.pos);
  std::string full = name.text;
  while (skip_op(".")) full += "." + expect(TokenKind::kName, "name").text;
  node->text = keep(std::move(full));
  node->left = left;
  if (is_op("(")) arguments(*node);
  return done(node);
}

Expr* Parser::filter_chain(Expr* node) {
  while (skip_op("|")) node = filter(node);
  return node;
}

Expr* Parser::test(Expr* left) {
  const std::uint32_t pos = next().pos;
  const bool negated = skip_name("not");
  Expr* node = make(ExprKind::kTest, pos);
  std::string name = expect(TokenKind::kName, "name").text;
  while (skip_op(".")) name += "." + expect(TokenKind::kName, "name").text;
  node->text = keep(std::move(name));
  node->left = left;
  if (is_op("(")) {
    arguments(*node);
  } else {
    const TokenKind kind = current().kind;
    const bool literal = kind == TokenKind::kString || kind == TokenKind::kInteger || kind == TokenKind::kFloat;
    const bool word = kind == TokenKind::kName && !is_name("else") && !is_name("or") && !is_name("and");
    if (literal || word || is_op("[") || is_op("{")) {
      if (is_name("is")) fail(current().pos, "You cannot chain multiple tests with is");
      Level level(*this);
      node->items.push_back(postfix(primary()));
    }
  }
  done(node);
  if (!negated) return node;
  Expr* inverse = make(ExprKind::kNot, pos);
  inverse->left = node;
  return done(inverse);
}

}  // namespace fathom::jinja
