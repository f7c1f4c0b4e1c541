// What binds to what, as Jinja 3.1.6 parses it.
#include "text/jinja/parser.h"

#include <gtest/gtest.h>

#include "text/jinja/repr.h"

namespace fathom::jinja {
namespace {

const char* const kBinary[] = {"+", "-", "*", "/", "//", "%", "**"};
const char* const kCompare[] = {"==", "!=", "<", "<=", ">", ">=", "in", "notin"};

std::string shown(const Expr* e);

std::string list(std::string head, const std::vector<Expr*>& nodes) {
  for (const Expr* node : nodes) head += " " + shown(node);
  return "(" + head + ")";
}

std::string with_arguments(std::string head, const Expr& e) {
  for (const Expr* item : e.items) head += " " + shown(item);
  for (const Keyword& keyword : e.keywords) head += " " + keyword.name + "=" + shown(keyword.value);
  return "(" + head + ")";
}

std::string constant(const Value& value) {
  Runtime rt(Limits{}, "");
  if (value.is(Kind::kBool)) return value.b ? "true" : "false";
  if (value.is(Kind::kNone)) return "none";
  return std::string(repr(rt, value).str->view());
}

std::string compared(const Expr& e) {
  std::string out = "(cmp " + shown(e.left);
  for (std::size_t i = 0; i < e.ops.size(); ++i)
    out += fmt::format(" {} {}", kCompare[static_cast<std::size_t>(e.ops[i])], shown(e.items[i]));
  return out + ")";
}

std::string shown(const Expr* e) {
  if (e == nullptr) return "-";
  switch (e->kind) {
    case ExprKind::kConst:
      return constant(e->constant);
    case ExprKind::kName:
      return std::string(e->text.view());
    case ExprKind::kList:
      return list("list", e->items);
    case ExprKind::kTuple:
      return list("tuple", e->items);
    case ExprKind::kDict:
      return list("dict", e->items);
    case ExprKind::kGetAttr:
      return fmt::format("(. {} {})", shown(e->left), e->constant.str->view());
    case ExprKind::kGetItem:
      return list("[]", {e->left, e->right});
    case ExprKind::kSlice:
      return list("slice", e->items);
    case ExprKind::kCall:
      return with_arguments("call " + shown(e->left), *e);
    case ExprKind::kFilter:
      return with_arguments(fmt::format("| {} {}", shown(e->left), e->text.view()), *e);
    case ExprKind::kTest:
      return with_arguments(fmt::format("is {} {}", shown(e->left), e->text.view()), *e);
    case ExprKind::kNot:
      return list("not", {e->left});
    case ExprKind::kNegate:
      return list("neg", {e->left});
    case ExprKind::kPositive:
      return list("pos", {e->left});
    case ExprKind::kBinary:
      return list(kBinary[static_cast<std::size_t>(e->op)], {e->left, e->right});
    case ExprKind::kAnd:
      return list("and", {e->left, e->right});
    case ExprKind::kOr:
      return list("or", {e->left, e->right});
    case ExprKind::kConcat:
      return list("~", e->items);
    case ExprKind::kCompare:
      return compared(*e);
    case ExprKind::kCondition:
      return list("if", {e->left, e->items[0], e->right});
    case ExprKind::kNsRef:
      break;
  }
  return "?";
}

TEST(JinjaParser, OperatorsBindAsInJinja) {
  const std::pair<const char*, const char*> cases[] = {
      {"a + b * c", "(+ a (* b c))"},
      {"(a + b) * c", "(* (+ a b) c)"},
      {"a - b - c", "(- (- a b) c)"},
      {"a ** b ** c", "(** (** a b) c)"},
      {"-a ** b", "(** (neg a) b)"},
      {"a * -b", "(* a (neg b))"},
      {"not a and b or c", "(or (and (not a) b) c)"},
      {"a or b and not c", "(or a (and b (not c)))"},
      {"a < b <= c != d", "(cmp a < b <= c != d)"},
      {"a in b and c not in d", "(and (cmp a in b) (cmp c notin d))"},
      {"a ~ b + 1 ~ c", "(+ (~ a b) (~ 1 c))"},
      {"a if b else c if d else e", "(if b a (if d c e))"},
      {"a if b", "(if b a -)"},
      {"x.y[1].z(1, k=2)", "(call (. ([] (. x y) 1) z) 1 k=2)"},
      {"a[1:2]", "([] a (slice 1 2 -))"},
      {"a[:-1]", "([] a (slice - (neg 1) -))"},
      {"a[::2]", "([] a (slice - - 2))"},
      {"x|first|join(', ')", "(| (| x first) join ', ')"},
      {"-x|abs", "(| (neg x) abs)"},
      {"a + b|length", "(+ a (| b length))"},
      {"x is defined and y is not none", "(and (is x defined) (not (is y none)))"},
      {"x is divisibleby 3", "(is x divisibleby 3)"},
      {"not x is odd", "(not (is x odd))"},
      {"x == 1 is true", "(cmp x == (is 1 true))"},
      {"[1, 'a', (b, c), {}]", "(list 1 'a' (tuple b c) (dict))"},
      {"{'k': [1], 'v': x.y}", "(dict 'k' (list 1) 'v' (. x y))"},
      {"a, b", "(tuple a b)"},
      {"(a,)", "(tuple a)"},
      {"'x' 'y'", "'xy'"},
      {"a // b % c / d", "(/ (% (// a b) c) d)"},
      {"f(a)(b)[c]", "([] (call (call f a) b) c)"},
      {"x is not in [1]", "(not (is x in (list 1)))"},
      {"+a - +b", "(- (pos a) (pos b))"},
      {"a and b if c or d else e", "(if (or c d) (and a b) e)"}};
  for (const auto& [source, tree] : cases) {
    const auto parsed = parse_template(fmt::format("{{{{ {} }}}}", source));
    ASSERT_EQ(parsed->body.size(), 1u) << source;
    EXPECT_EQ(shown(parsed->body[0]->expr), tree) << source;
  }
}

TEST(JinjaParser, WhatJinjaRefusesIsRefused) {
  for (const char* source :
       {"{{ a b }}", "{{ }}", "{% if a %}", "{% for x y %}{% endfor %}", "{{ a. }}", "{{ (a }}", "{% endif %}",
        "{{ f(a=1, 2) }}", "{% set 1 = 2 %}", "{{ a is }}", "{{ a| }}", "{{ {'a' 1} }}", "{% unknown %}"})
    EXPECT_THROW(parse_template(source), TemplateError) << source;
}

}  // namespace
}  // namespace fathom::jinja
