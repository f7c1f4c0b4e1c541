// Tokens as Jinja 3.1.6 makes them, with trim_blocks and lstrip_blocks.
#include "text/jinja/lexer.h"

#include <gtest/gtest.h>

#include <utility>

namespace fathom::jinja {
namespace {

// Text in <>, strings in quotes, numbers by their type, everything else as it is written.
std::string shown(std::string_view source) {
  const std::string normal = normalize_source(source);
  std::string out, data;
  const auto add = [&](const std::string& word) { out += (out.empty() ? "" : " ") + word; };
  for (const Token& token : tokenize(normal)) {
    if (token.kind == TokenKind::kData) {
      data += token.text;
      continue;
    }
    if (!data.empty()) add("<" + std::exchange(data, {}) + ">");
    switch (token.kind) {
      case TokenKind::kBlockBegin:
        add("{%");
        break;
      case TokenKind::kBlockEnd:
        add("%}");
        break;
      case TokenKind::kVariableBegin:
        add("{{");
        break;
      case TokenKind::kVariableEnd:
        add("}}");
        break;
      case TokenKind::kString:
        add("'" + token.text + "'");
        break;
      case TokenKind::kInteger:
        add(fmt::format("int {}", static_cast<i64>(token.integer)));
        break;
      case TokenKind::kFloat:
        add(fmt::format("float {:g}", token.real));
        break;
      case TokenKind::kEnd:
        break;
      default:
        add(token.text);
    }
  }
  return out;
}

TEST(JinjaLexer, TokensAreJinjas) {
  const std::pair<const char*, const char*> cases[] = {
      {"a{{ x }}b", "<a> {{ x }} <b>"},
      {"  {% if x %}\n  y{% endif %}\n", "{% if x %} <  y> {% endif %}"},
      {"a {{- x -}} b", "<a> {{ x }} <b>"},
      {"{# note #}\nz", "<z>"},
      {"{% raw %}{{ x }}{% endraw %}", "<{{ x }}>"},
      {"{{ 1_000 + 0x1F + 0b101 + 0o17 }}", "{{ int 1000 + int 31 + int 5 + int 15 }}"},
      {"{{ 1.5e3 ~ 2e-2 ~ 1_0.5 }}", "{{ float 1500 ~ float 0.02 ~ float 10.5 }}"},
      {"{{ 'it\\'s' ~ \"a\\n\\u00fc\" }}", "{{ 'it's' ~ 'a\nü' }}"},
      {"a{%+ if x %}b", "<a> {% if x %} <b>"},
      {"  {%- if x %}", "{% if x %}"},
      {"{{ a.b[1:2]**-3 // 4 }}", "{{ a . b [ int 1 : int 2 ] ** - int 3 // int 4 }}"},
      {"{{ x|f(a=1) is not none }}", "{{ x | f ( a = int 1 ) is not none }}"},
      {"\n\n{% set x = {'a': [1, 2]} -%}\n\n end", "<\n\n> {% set x = { 'a' : [ int 1 , int 2 ] } %} <end>"},
      {"  {%+ if x %}", "<  > {% if x %}"},
      {"line{% if x +%}\nnext", "<line> {% if x %} <\nnext>"},
      {"   {{ x }}", "<   > {{ x }}"},
      {"a\n   {#- c -#}   b", "<ab>"},
      {"{{ a<=b>=c!=d==e<f>g }}", "{{ a <= b >= c != d == e < f > g }}"}};
  for (const auto& [source, tokens] : cases) EXPECT_EQ(shown(source), tokens) << source;
}

TEST(JinjaLexer, LineEndsBecomeOne) { EXPECT_EQ(normalize_source("a\r\nb\rc\n\n"), "a\nb\nc\n"); }

TEST(JinjaLexer, OffsetsAreThoseOfTheSource) {
  const std::vector<Token> tokens = tokenize("ab{{ cd }}");
  ASSERT_GE(tokens.size(), 4u);
  EXPECT_EQ(tokens[1].pos, 2u);
  EXPECT_EQ(tokens[2].pos, 5u);
  EXPECT_EQ(tokens[3].pos, 8u);
}

TEST(JinjaLexer, BrokenTextIsRefusedAtItsPlace) {
  for (const auto& [source, column] : {std::pair<const char*, int>{"a {# b", 3}, {"{{ 'x }}", 4}, {"{{ a ` b }}", 6}}) {
    try {
      tokenize(source);
      ADD_FAILURE() << source;
    } catch (const TemplateError& error) {
      EXPECT_EQ(error.line(), 1) << source;
      EXPECT_EQ(error.column(), column) << source << ": " << error.text();
    }
  }
}

}  // namespace
}  // namespace fathom::jinja
