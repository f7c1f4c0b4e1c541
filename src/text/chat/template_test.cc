#include "text/chat/template.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using Pieces = std::vector<TextPiece>;

std::string env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Renders every line of rendered.jsonl; returns how many there were.
int check_rendered(const fs::path& model, const fs::path& rendered) {
  const ChatTemplate chat = ChatTemplate::load(model);
  std::ifstream file(rendered);
  int count = 0;
  for (std::string line; std::getline(file, line); ++count) {
    const auto row = nlohmann::ordered_json::parse(line);
    if (row.contains("output")) {
      EXPECT_EQ(chat.render(row["input"]), row["output"].get<std::string>()) << "line " << count + 1;
    } else {
      EXPECT_THROW(chat.render(row["input"]), jinja::TemplateError) << "line " << count + 1;
    }
  }
  return count;
}

fs::path tokenizers() { return fs::path(env("FATHOM_TEST_DATA")) / "tokenizers"; }

TEST(ChatTemplate, DeepSeekV3) {
  EXPECT_EQ(check_rendered(tokenizers() / "deepseek-v3", tokenizers() / "deepseek-v3" / "rendered.jsonl"), 200);
}

TEST(ChatTemplate, Tiny) {
  EXPECT_EQ(check_rendered(env("FATHOM_SOURCE_DIR") + "/models/tiny", tokenizers() / "tiny" / "rendered.jsonl"), 200);
}

TEST(ChatTemplate, ForeignQwen3) {
  const std::string dir = env("FATHOM_FOREIGN_TOKENIZERS");
  if (dir.empty()) GTEST_SKIP() << "FATHOM_FOREIGN_TOKENIZERS is not set: qwen3's files are not shipped";
  EXPECT_EQ(check_rendered(dir + "/qwen3", dir + "/qwen3/rendered.jsonl"), 200);
}

Pieces pieces(const std::string& source, const std::string& variables) {
  return ChatTemplate::parse(source, "<s>", "</s>").render_pieces(std::string_view(variables));
}

TEST(Provenance, MessageTextIsNotTemplateText) {
  EXPECT_EQ(pieces("{{ bos_token }}<|user|>{{ m }}<|end|>", R"({"m": "<|end|> hi"})"),
            (Pieces{{"<s><|user|>", true}, {"<|end|> hi", false}, {"<|end|>", true}}));
  EXPECT_EQ(pieces("{{ '<|' + m + '|>' }}", R"({"m": "a"})"), (Pieces{{"<|", true}, {"a", false}, {"|>", true}}));
  EXPECT_EQ(pieces("{{ m }}", R"({"m": ""})"), Pieces{});
  EXPECT_EQ(pieces("{{ m }}", R"({"m": 12})"), (Pieces{{"12", false}}));
  EXPECT_EQ(pieces("{{ m + 1 }}/{{ 5 }}", R"({"m": 12})"), (Pieces{{"13", false}, {"/5", true}}));
}

TEST(Provenance, SurvivesEveryWayThroughTheTemplate) {
  const Pieces mixed{{"A", true}, {"bc", false}, {"D", true}};
  const std::string variables = R"({"m": "bc", "k": {"bc": "bc"}, "l": ["b", "c"]})";
  for (const char* source : {
           "{{ 'A' ~ m ~ 'D' }}",
           "{{ ('A' + m + 'D')[0:] }}",
           "{{ ('..A' + m + 'D..')|trim('.') }}",
           "{{ ('  A' + m + 'D  ').strip() }}",
           "{{ ['A', m, 'D']|join }}",
           "{{ ''.join(['A', m, 'D']) }}",
           "{{ 'A%sD' % m }}",
           "{{ 'A%(x)sD' % {'x': m} }}",
           "{{ 'A{}D'.format(m) }}",
           "{{ 'A{x}D'.format(x=m) }}",
           "{{ 'AxD'.replace('x', m) }}",
           "{{ 'AxD'|replace('x', m) }}",
           "{{ ('D' + m[::-1] + 'A')[::-1] }}",
           "{{ ('x,A' + m + 'D,y').split(',')[1] }}",
           "{{ ('d' + m + 'D')[1:]|list|join('')|replace('bc', 'A' ~ m) }}",
           "{% set x %}A{{ m }}D{% endset %}{{ x }}",
           "{% macro f(x) %}A{{ x }}D{% endmacro %}{{ f(m) }}",
           "{% macro f() %}A{{ caller() }}D{% endmacro %}{% call f() %}{{ m }}{% endcall %}",
           "{% filter trim %}  A{{ m }}D  {% endfilter %}",
           "{% set ns = namespace(x='A') %}{% set ns.x = ns.x + m %}{{ ns.x + 'D' }}",
           "A{% for c in m %}{{ c }}{% endfor %}D",
           "A{% for x in k.values() %}{{ x }}{% endfor %}D",
           "A{% for x in k %}{{ x }}{% endfor %}D",
           "A{{ l|join }}D",
           "A{{ m|upper|lower }}D",
           "A{{ m|capitalize|lower }}D",
           "A{{ (m|tojson)[1:3] }}D",
           "A{{ {'x': m}['x'] }}D",
           "{{ ('A' + m).ljust(4, 'D') }}",
           "{{ ('A' + m)|replace('Z', '') + 'D' }}",
           "{{ 'A' + m + ('D' if m else m) }}",
           "{% generation %}A{{ m }}D{% endgeneration %}",
       }) {
    if (std::string(source).find("'d' + m") != std::string::npos) {
      EXPECT_EQ(pieces(source, variables), (Pieces{{"A", true}, {"bc", false}, {"D", true}})) << source;
    } else {
      EXPECT_EQ(pieces(source, variables), mixed) << source;
    }
  }
}

TEST(Provenance, WholeStringEffectsStayContent) {
  // Characters that a filter makes out of content are content, those of the template around them are not.
  EXPECT_EQ(pieces("{{ m|e }}", R"({"m": "<"})"), (Pieces{{"&lt;", false}}));
  EXPECT_EQ(pieces("{{ m|tojson }}", R"({"m": "a\n"})"), (Pieces{{"\"", true}, {"a\\n", false}, {"\"", true}}));
  EXPECT_EQ(pieces("{{ m * 2 }}", R"({"m": "ab"})"), (Pieces{{"abab", false}}));
  EXPECT_EQ(pieces("{{ m|int + 1 }}", R"({"m": "41"})"), (Pieces{{"42", false}}));
}

TEST(ChatTemplate, TransformersDefaults) {
  const ChatTemplate chat = ChatTemplate::parse(
      "{{ tools is none }} {{ add_generation_prompt }} {{ documents }} {{ eos_token }} {{ bos_token is defined }}", "",
      "</s>");
  EXPECT_EQ(chat.render(std::string_view("{}")), "True False None </s> False");
  EXPECT_EQ(chat.render(nlohmann::json{{"tools", 1}, {"add_generation_prompt", true}}), "False True None </s> False");
}

TEST(ChatTemplate, ErrorsNameLineAndColumn) {
  try {
    ChatTemplate::parse("a\n  {{ x |\n nope }}", "", "");
    FAIL();
  } catch (const jinja::TemplateError& error) {
    EXPECT_EQ(error.line(), 3);
    EXPECT_EQ(error.column(), 2);
    EXPECT_EQ(std::string(error.what()),
              "chat template, line 3, column 2: No filter named 'nope'; the nearest is 'upper'.");
  }
  try {
    ChatTemplate::parse("é{{ 1 +\nm.x.y }}", "", "").render(std::string_view(R"({"m": {}})"));
    FAIL();
  } catch (const jinja::TemplateError& error) {
    EXPECT_EQ(std::string(error.what()), "chat template, line 2, column 4: 'dict object' has no attribute 'x'");
  }
  try {
    ChatTemplate::parse("{{ raise_exception('no ' + m) }}", "", "").render(std::string_view(R"({"m": "way"})"));
    FAIL();
  } catch (const jinja::TemplateError& error) {
    EXPECT_TRUE(error.raised());
    EXPECT_EQ(error.text(), "no way");
  }
}

TEST(ChatTemplate, RefusesBadInput) {
  EXPECT_THROW(ChatTemplate::parse("\xff", "", ""), Error);
  EXPECT_THROW(ChatTemplate::parse("a\xe4\xb8", "", ""), Error);
  const ChatTemplate chat = ChatTemplate::parse("{{ messages }}", "", "");
  EXPECT_THROW(chat.render(std::string_view("[1]")), Error);
  EXPECT_THROW(chat.render(std::string_view("{\"a\": ")), Error);
  EXPECT_THROW(chat.render(std::string_view("{\"a\": 1} x")), Error);
  EXPECT_THROW(chat.render(std::string_view("{\"a\": " + std::string(100000, '[') + std::string(100000, ']') + "}")),
               Error);
  EXPECT_THROW(chat.render(std::string_view("{\"a\": 1" + std::string(60, '0') + "}")), Error);
}

class ModelDir : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(dir_);
    fs::create_directories(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }
  void config(const std::string& text) { write_file(dir_ / "tokenizer_config.json", text); }
  fs::path dir_;
};

TEST_F(ModelDir, NoTemplate) {
  config("{}");
  EXPECT_FALSE(ChatTemplate::exists(dir_));
  try {
    ChatTemplate::load(dir_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("has no chat template; pass --chat-template FILE"), std::string::npos);
  }
}

TEST_F(ModelDir, NamedTemplatesAndTools) {
  config(R"({"bos_token": {"content": "<b>"}, "eos_token": null, "additional_special_tokens": ["<x>"],
             "chat_template": [{"name": "default", "template": "D{{ bos_token }}{{ eos_token }}{{ additional_special_tokens[0] }}"},
                               {"name": "tool_use", "template": "T"}, {"name": "rag", "template": "R"}]})");
  EXPECT_EQ(ChatTemplate::load(dir_).render(std::string_view("{}")), "D<b><x>");
  EXPECT_EQ(ChatTemplate::load(dir_).render(std::string_view(R"({"tools": [1]})")), "T");
  EXPECT_EQ(ChatTemplate::load(dir_, "rag").render(std::string_view(R"({"tools": [1]})")), "R");
  EXPECT_THROW(ChatTemplate::load(dir_, "other"), Error);
}

// Overlong forms and surrogates are ill-formed too (Unicode, table 3-7).
TEST(ChatTemplateText, IllFormedUtf8IsRefusedWithItsPlace) {
  for (const char* text : {"ab\x80", "ab\xE0\x80\x80", "ab\xED\xA0\x80", "ab\xC3"}) {
    try {
      ChatTemplate::parse(text, "", "");
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("not valid UTF-8 at byte 2"), std::string::npos) << error.what();
    }
  }
}

TEST_F(ModelDir, JinjaFileWins) {
  config(R"({"bos_token": "<b>", "chat_template": "config"})");
  EXPECT_EQ(ChatTemplate::load(dir_).source(), "config");
  write_file(dir_ / "chat_template.jinja", "{{ bos_token }}file");
  EXPECT_EQ(ChatTemplate::load(dir_).render(std::string_view("{}")), "<b>file");
  write_file(dir_ / "other.txt", "{{ bos_token }}other");
  EXPECT_EQ(ChatTemplate::load_file(dir_ / "other.txt", dir_).render(std::string_view("{}")), "<b>other");
  EXPECT_EQ(ChatTemplate::load_file(dir_ / "other.txt").render(std::string_view("{}")), "other");
}

}  // namespace
}  // namespace fathom
