// Every template of tests/data/jinja_cases.jsonl gives what the real Jinja2 gave (scripts/dev/make_jinja_cases.py).
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "text/chat/template.h"

namespace fathom {
namespace {

std::tm golden_time() {
  std::tm time{};
  time.tm_year = 126, time.tm_mday = 2, time.tm_hour = 3, time.tm_min = 4, time.tm_sec = 5;
  time.tm_wday = 5, time.tm_yday = 1;
  return time;
}

// What came out: the text, or "syntax" or "runtime" and the message.
std::pair<std::string, std::string> outcome(const std::string& source, const std::string& variables) {
  RenderOptions options;
  options.now = golden_time();
  std::optional<ChatTemplate> chat;
  try {
    chat = ChatTemplate::parse(source, "", "");
  } catch (const jinja::TemplateError& error) {
    return {"syntax", error.text()};
  }
  try {
    return {"output", chat->render(std::string_view(variables), options)};
  } catch (const jinja::TemplateError& error) {
    EXPECT_GT(error.line(), 0);
    EXPECT_GT(error.column(), 0);
    return {"runtime", error.text()};
  }
}

TEST(JinjaCases, EqualJinja2) {
  std::ifstream file(std::string(std::getenv("FATHOM_SOURCE_DIR")) + "/tests/data/jinja_cases.jsonl");
  std::string line, variables;
  ASSERT_TRUE(std::getline(file, line));
  variables = nlohmann::ordered_json::parse(line)["variables"].dump();
  int count = 0;
  while (std::getline(file, line)) {
    const auto row = nlohmann::json::parse(line);
    const std::string source = row["template"];
    const auto [kind, text] = outcome(source, variables);
    ++count;
    ASSERT_TRUE(row.contains(kind)) << source << "\nwanted " << row.dump() << "\ngot " << kind << ": " << text;
    if (kind == "output") {
      EXPECT_EQ(text, row["output"].get<std::string>()) << source;
    }
    // Messages of undefined values and of raise_exception are Jinja's own, word for word.
    const std::string wanted = row[kind];
    if (kind == "runtime" && (wanted.find("undefined") != wanted.npos || wanted.find("has no") != wanted.npos)) {
      EXPECT_EQ(text, wanted) << source;
    }
  }
  EXPECT_GT(count, 1300);
}

}  // namespace
}  // namespace fathom
