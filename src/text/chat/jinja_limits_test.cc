// Hostile templates end with an error, soon, without exhausting stack or memory.
#include <gtest/gtest.h>

#include <ctime>
#include <string>

#include "text/chat/template.h"

namespace fathom {
namespace {

std::string repeat(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

// The error of a template, empty if it rendered; fails the test when it takes long.
std::string error_of(const std::string& source, const std::string& variables = "{}") {
  const std::clock_t start = std::clock();  // processor time: the machine may be busy
  std::string message;
  try {
    ChatTemplate::parse(source, "", "").render(std::string_view(variables));
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_LT((std::clock() - start) / CLOCKS_PER_SEC, 20) << source.substr(0, 200);
  return message;
}

void expect_error(const std::string& source, const std::string& part) {
  const std::string error = error_of(source);
  EXPECT_NE(error.find(part), std::string::npos) << source.substr(0, 200) << "\n" << error;
}

TEST(JinjaLimits, Steps) {
  expect_error("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "more than");
  expect_error("{% set x = range(99999)|list %}{% for a in x %}{% if x == x + [1] %}{% endif %}{% endfor %}",
               "more than");
  expect_error("{% set s = 'a' * 1000000 %}{% for i in range(99999) %}{% if s.count('ab') %}{% endif %}{% endfor %}",
               "steps");
  expect_error("{% set s = 'é' * 1000000 %}{% for i in range(99999) %}{% if s[999999] %}{% endif %}{% endfor %}",
               "steps");
}

TEST(JinjaLimits, Memory) {
  expect_error("{{ 'a' * 1000000000000 }}", "longer than");
  expect_error("{{ ([1] * 100000000)|length }}", "more than");
  expect_error(
      "{% set ns = namespace(s='aaaaaaaaaaaaaaaa') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
      "MiB");
  expect_error("{% set ns = namespace(s=['a']) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
               "more than");
  expect_error("{% for i in range(99999) %}{{ 'a' * 100000 }}{% endfor %}", "more than");
  expect_error("{{ '%999999999d' % 1 }}", "");
  expect_error("{{ '{:999999999}'.format(1) }}", "too large");
  expect_error("{{ 'a'.ljust(999999999999) }}", "MiB");
  expect_error("{{ 'a'|center(999999999999) }}", "MiB");
  expect_error("{{ 'a\nb'|indent(999999999999) }}", "MiB");
  expect_error("{{ '\t'.expandtabs(999999999) * 100000 }}", "MiB");
  expect_error("{{ 'a'.replace('', 'b' * 100000000) * 100 }}", "more than");
  expect_error("{{ range(100001) }}", "Range too big");
  expect_error("{{ [1]|tojson(indent=1000000000) }}", "MiB");
  expect_error("{{ 2 ** 1000000000000 }}", "overflow");
  expect_error("{{ [1]|batch(999999999999, 0)|list }}", "more than");
  expect_error("{{ [1]|slice(999999999999)|list }}", "more than");
}

TEST(JinjaLimits, Depth) {
  for (const char* open : {"(", "[", "{1:", "-", "not ", "f(", "x[", "1 if 1 else "}) {
    EXPECT_NE(error_of("{{ " + repeat(open, 100000)), "") << open;
    EXPECT_NE(error_of("{{ " + repeat(open, 100000) + "1 }}"), "") << open;
  }
  expect_error("{{ 1" + repeat("+1", 100000) + " }}", "levels");
  expect_error("{{ 1" + repeat("|abs", 100000) + " }}", "levels");
  expect_error("{{ x" + repeat(".x", 100000) + " }}", "levels");
  EXPECT_EQ(error_of("{{ 1" + repeat("+1", 900) + " }}"), "");
  expect_error(repeat("{% if 1 %}", 100000), "nested more than");
  expect_error(repeat("{% for x in y %}", 100000), "nested more than");
  expect_error("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nests too deeply");
  expect_error(
      "{% macro m() %}{% for x in [1] %}{% if 1 %}{{ 'a' ~ m() }}{% endif %}{% endfor %}{% endmacro %}{{ m() }}",
      "nests too deeply");
  expect_error("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "nests too deeply");
  const std::string deep =
      "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}";
  EXPECT_EQ(error_of(deep), "");
  expect_error(deep + "{{ ns.x }}", "nests too deeply");
  expect_error(deep + "{{ ns.x|tojson }}", "nests too deeply");
  expect_error(deep + "{% set y = ns.x %}" + deep + "{{ ns.x == y }}", "nests too deeply");
  expect_error("{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}", "nests too deeply");
  expect_error(
      "{% set ns = namespace(g=[1]) %}{% for i in range(9999) %}{% set ns.g = ns.g|map('abs') %}{% endfor %}{{ "
      "ns.g|list }}",
      "nests too deeply");
}

TEST(JinjaLimits, ManyBranchesAndKeysAreNoProblem) {
  EXPECT_EQ(error_of("{% if 0 %}" + repeat("{% elif 0 %}x", 20000) + "{% endif %}"), "");
  EXPECT_EQ(error_of(repeat("{{ x }}a", 50000)), "");
  std::string object = "{";
  for (int i = 0; i < 200000; ++i) object += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":1";
  EXPECT_EQ(error_of("{{ d|length }}", "{\"d\":" + object + "}}"), "");
  EXPECT_EQ(error_of("{% set ns = namespace(s='') %}{% for i in range(99999) %}{% set ns.s = ns.s + 'abcdefghij' %}{% "
                     "endfor %}{{ ns.s }}"),
            "");
}

}  // namespace
}  // namespace fathom
