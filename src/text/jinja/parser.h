// Tokens to the tree of a template: Jinja's grammar, without includes and inheritance.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace fathom::jinja {

// Parses a template and settles where each of its variables lives. Throws TemplateError.
std::unique_ptr<const Template> parse_template(std::string_view source);

// The recursive descent behind parse_template.
class Parser {
 public:
  explicit Parser(Template& out) : out_(out), tokens_(tokenize(out.source)) {}
  void run();

 private:
  // Expressions, from the loosest binding to the tightest (parser_expr.cc).
  Expr* expression(bool with_condition = true);
  Expr* condition();
  Expr* disjunction();
  Expr* conjunction();
  Expr* negation();
  Expr* comparison();
  Expr* sum();
  Expr* concatenation();
  Expr* product();
  Expr* power();
  Expr* unary(bool with_filter = true);
  Expr* primary(bool with_namespace = false);
  Expr* name_or_constant(bool with_namespace);
  Expr* string_constant();
  Expr* postfix(Expr* node);
  Expr* filters_and_tests(Expr* node);
  Expr* subscript(Expr* node);
  Expr* subscript_item();
  Expr* call(Expr* callee);
  Expr* filter(Expr* node);
  Expr* filter_chain(Expr* node);
  Expr* test(Expr* node);
  void arguments(Expr& node);
  Expr* list();
  Expr* dict();
  struct TupleRules {
    bool targets = false;  // only names and literals
    bool with_condition = true;
    bool with_namespace = false;  // name.attribute is a target
    bool parentheses = false;     // may be empty
  };
  Expr* tuple(const TupleRules& rules);
  Expr* tuple_item(const TupleRules& rules);
  Expr* target(bool with_namespace);
  void check_target(const Expr& node);

  // Statements (parser.cc).
  Body statements(std::initializer_list<std::string_view> ends);
  Stmt* statement();
  Stmt* if_statement(Stmt* node);
  Stmt* for_statement(Stmt* node);
  Stmt* set_statement(Stmt* node);
  Stmt* macro_statement(Stmt* node);
  Stmt* call_statement(Stmt* node);
  Stmt* filter_statement(Stmt* node);
  Stmt* with_statement(Stmt* node);
  Stmt* block_statement(Stmt* node);
  Stmt* autoescape_statement(Stmt* node);
  void parameters(Stmt& node);
  Body block(std::initializer_list<std::string_view> ends);
  [[noreturn]] void fail_tag(const Token& tag);
  [[noreturn]] void fail_end(std::initializer_list<std::string_view> ends);

  // Tokens.
  const Token& current() const { return tokens_[at_]; }
  const Token& peek() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool is(TokenKind kind) const { return current().kind == kind; }
  bool is_op(std::string_view op) const { return is(TokenKind::kOperator) && current().text == op; }
  bool is_name(std::string_view name) const { return is(TokenKind::kName) && current().text == name; }
  bool skip_op(std::string_view op) { return is_op(op) && (next(), true); }
  bool skip_name(std::string_view name) { return is_name(name) && (next(), true); }
  void expect_op(std::string_view op);
  const Token& expect(TokenKind kind, std::string_view what);
  [[noreturn]] void fail(std::uint32_t pos, const std::string& text) const { fail_at(out_.source, pos, text); }
  static std::string describe(const Token& token);

  // Nodes.
  Expr* make(ExprKind kind, std::uint32_t pos);
  Expr* binary(BinaryOp op, Expr* left, Expr* right, std::uint32_t pos);
  Expr* done(Expr* node);  // settles the depth
  Stmt* make_stmt(StmtKind kind, std::uint32_t pos);
  Str keep(std::string text);
  Value keep_string(std::string text);

  // One level of recursion.
  class Level {
   public:
    explicit Level(Parser& parser);
    ~Level() { --parser_.depth_; }

   private:
    Parser& parser_;
  };

  Template& out_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::vector<std::string> open_tags_;
};

}  // namespace fathom::jinja
