#include "text/jinja/parser.h"

#include <algorithm>

#include "text/jinja/scope.h"
#include "text/jinja/text.h"

namespace fathom::jinja {

namespace {
constexpr int kMaxNesting = 200;

std::string quoted_list(std::initializer_list<std::string_view> names) {
  std::string out;
  for (const std::string_view name : names) out += (out.empty() ? "'" : " or '") + std::string(name) + "'";
  return out;
}

}  // namespace

Parser::Level::Level(Parser& parser) : parser_(parser) {
  if (++parser.depth_ > kMaxNesting)
    parser.fail(parser.current().pos, fmt::format("nested more than {} levels deep", kMaxNesting));
}

std::string Parser::describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kData:
      return "template text";
    case TokenKind::kBlockBegin:
      return "'begin of statement block'";
    case TokenKind::kBlockEnd:
      return "'end of statement block'";
    case TokenKind::kVariableBegin:
      return "'begin of print statement'";
    case TokenKind::kVariableEnd:
      return "'end of print statement'";
    case TokenKind::kString:
      return "'string'";
    case TokenKind::kInteger:
      return "'integer'";
    case TokenKind::kFloat:
      return "'float'";
    case TokenKind::kEnd:
      return "'end of template'";
    default:
      return "'" + token.text + "'";
  }
}

void Parser::expect_op(std::string_view op) {
  if (!is_op(op)) fail(current().pos, fmt::format("expected token '{}', got {}", op, describe(current())));
  next();
}

const Token& Parser::expect(TokenKind kind, std::string_view what) {
  if (!is(kind)) fail(current().pos, fmt::format("expected token '{}', got {}", what, describe(current())));
  return next();
}

Stmt* Parser::make_stmt(StmtKind kind, std::uint32_t pos) {
  Stmt& node = out_.stmts.emplace_back();
  node.kind = kind, node.pos = pos;
  return &node;
}

void Parser::fail_tag(const Token& tag) {
  std::string text = fmt::format("Encountered unknown tag '{}'.", tag.text);
  if (tag.text == "include" || tag.text == "import" || tag.text == "from" || tag.text == "extends")
    text = fmt::format("a chat template stands alone: '{}' is not available", tag.text);
  if (!open_tags_.empty())
    text += fmt::format(" The innermost block that needs to be closed is '{}'.", open_tags_.back());
  fail(tag.pos, text);
}

void Parser::fail_end(std::initializer_list<std::string_view> ends) {
  fail(current().pos,
       fmt::format("Unexpected end of template. Jinja was looking for the following tags: {}.", quoted_list(ends)));
}

// Statements up to one of the tags `ends`; the name of that tag is the current token afterwards.
Body Parser::statements(std::initializer_list<std::string_view> ends) {
  Level level(*this);
  Body body;
  while (!is(TokenKind::kEnd)) {
    const Token& token = current();
    if (token.kind == TokenKind::kData) {
      Stmt* node = make_stmt(StmtKind::kData, token.pos);
      node->text = keep(token.text);
      body.push_back(node);
      next();
    } else if (token.kind == TokenKind::kVariableBegin) {
      next();
      Stmt* node = make_stmt(StmtKind::kOutput, token.pos);
      node->expr = tuple({});
      expect(TokenKind::kVariableEnd, "end of print statement");
      body.push_back(node);
    } else {
      next();
      if (std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return is_name(end); })) return body;
      body.push_back(statement());
      expect(TokenKind::kBlockEnd, "end of statement block");
    }
  }
  if (ends.size() != 0) fail_end(ends);
  return body;
}

// The rest of an opening tag and the statements after it, up to one of the tags `ends`.
Body Parser::block(std::initializer_list<std::string_view> ends) {
  skip_op(":");
  expect(TokenKind::kBlockEnd, "end of statement block");
  return statements(ends);
}

Stmt* Parser::statement() {
  using Rule = Stmt* (Parser::*)(Stmt*);
  static constexpr struct {
    std::string_view tag;
    StmtKind kind;
    Rule rule;
  } kRules[] = {
      {"if", StmtKind::kIf, &Parser::if_statement},
      {"for", StmtKind::kFor, &Parser::for_statement},
      {"set", StmtKind::kSet, &Parser::set_statement},
      {"macro", StmtKind::kMacro, &Parser::macro_statement},
      {"call", StmtKind::kCallBlock, &Parser::call_statement},
      {"filter", StmtKind::kFilterBlock, &Parser::filter_statement},
      {"with", StmtKind::kWith, &Parser::with_statement},
      {"block", StmtKind::kScope, &Parser::block_statement},
      {"autoescape", StmtKind::kScope, &Parser::autoescape_statement},
  };
  if (!is(TokenKind::kName)) fail(current().pos, "tag name expected");
  const Token& tag = next();
  if (tag.text == "break") return make_stmt(StmtKind::kBreak, tag.pos);
  if (tag.text == "continue") return make_stmt(StmtKind::kContinue, tag.pos);
  if (tag.text == "print") {
    Stmt* node = make_stmt(StmtKind::kOutput, tag.pos);
    node->expr = make(ExprKind::kConcat, tag.pos);
    while (!is(TokenKind::kBlockEnd)) {
      if (!node->expr->items.empty()) expect_op(",");
      node->expr->items.push_back(expression());
    }
    done(node->expr);
    return node;
  }
  if (tag.text == "generation") {
    Stmt* node = make_stmt(StmtKind::kCallBlock, tag.pos);
    node->generation = true;
    node->body = block({"endgeneration"});
    next();
    return node;
  }
  const auto* rule =
      std::find_if(std::begin(kRules), std::end(kRules), [&](const auto& r) { return r.tag == tag.text; });
  if (rule == std::end(kRules)) fail_tag(tag);
  open_tags_.push_back(tag.text);
  Stmt* node = (this->*rule->rule)(make_stmt(rule->kind, tag.pos));
  open_tags_.pop_back();
  return node;
}

Stmt* Parser::if_statement(Stmt* node) {
  while (true) {
    Expr* condition = tuple({.with_condition = false});
    node->branches.push_back({condition, block({"elif", "else", "endif"})});
    const std::string tag = next().text;
    if (tag == "elif") continue;
    if (tag == "else") {
      node->branches.push_back({nullptr, block({"endif"})});
      next();
    }
    return node;
  }
}

Stmt* Parser::for_statement(Stmt* node) {
  node->target = target(false);
  if (!skip_name("in")) fail(current().pos, "expected token 'in', got " + describe(current()));
  node->expr = tuple({.with_condition = false});
  if (skip_name("if")) node->test = expression();
  node->recursive = skip_name("recursive");
  node->body = block({"endfor", "else"});
  if (next().text == "else") {
    node->other = block({"endfor"});
    next();
  }
  return node;
}

Stmt* Parser::set_statement(Stmt* node) {
  node->target = target(true);
  if (skip_op("=")) {
    node->expr = tuple({});
    return node;
  }
  node->kind = StmtKind::kSetBlock;
  node->expr = filter_chain(nullptr);
  node->body = block({"endset"});
  next();
  return node;
}

void Parser::parameters(Stmt& node) {
  expect_op("(");
  while (!is_op(")")) {
    if (!node.parameters.empty()) expect_op(",");
    const Token& name = expect(TokenKind::kName, "name");
    Parameter parameter;
    parameter.name = keep(name.text);
    if (name.text == "true" || name.text == "false" || name.text == "none" || name.text == "True" ||
        name.text == "False" || name.text == "None")
      fail(name.pos, fmt::format("can't assign to '{}'", name.text));
    for (const Parameter& other : node.parameters)
      if (other.name.view() == name.text) fail(name.pos, fmt::format("duplicate argument '{}'", name.text));
    if (skip_op("=")) {
      parameter.fallback = expression();
    } else if (!node.parameters.empty() && node.parameters.back().fallback != nullptr) {
      fail(name.pos, "non-default argument follows default argument");
    }
    node.parameters.push_back(parameter);
  }
  expect_op(")");
}

Stmt* Parser::macro_statement(Stmt* node) {
  const Token& name = expect(TokenKind::kName, "name");
  node->name = name.text;
  node->text = keep(name.text);
  parameters(*node);
  node->body = block({"endmacro"});
  next();
  return node;
}

Stmt* Parser::call_statement(Stmt* node) {
  if (is_op("(")) parameters(*node);
  node->expr = expression();
  if (node->expr->kind != ExprKind::kCall) fail(node->pos, "expected call");
  node->body = block({"endcall"});
  next();
  return node;
}

Stmt* Parser::filter_statement(Stmt* node) {
  node->expr = filter_chain(filter(nullptr));
  node->body = block({"endfilter"});
  next();
  return node;
}

Stmt* Parser::with_statement(Stmt* node) {
  while (!is(TokenKind::kBlockEnd)) {
    if (!node->targets.empty()) expect_op(",");
    node->targets.push_back(target(false));
    expect_op("=");
    node->values.push_back(expression());
  }
  node->body = block({"endwith"});
  next();
  return node;
}

Stmt* Parser::block_statement(Stmt* node) {
  const std::string name = expect(TokenKind::kName, "name").text;
  if (is_op("-")) fail(current().pos, "Block names may not contain hyphens, use an underscore instead.");
  skip_name("scoped");
  node->body = block({"endblock"});
  next();
  skip_name(name);
  return node;
}

Stmt* Parser::autoescape_statement(Stmt* node) {
  Expr* on = expression();
  if (on->kind != ExprKind::kConst || truthy(on->constant))
    fail(node->pos, "autoescape is not available in chat templates");
  node->body = block({"endautoescape"});
  next();
  return node;
}

void Parser::run() { out_.body = statements({}); }

std::unique_ptr<const Template> parse_template(std::string_view source) {
  auto out = std::make_unique<Template>();
  out->source = normalize_source(source);
  if (out->source.size() > (std::size_t{64} << 20)) fail_at(out->source, 0, "the template is larger than 64 MiB");
  Parser(*out).run();
  resolve_scopes(*out);
  return out;
}

}  // namespace fathom::jinja
