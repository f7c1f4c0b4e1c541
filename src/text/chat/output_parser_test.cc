#include "text/chat/output_parser.h"

#include <gtest/gtest.h>

#include <random>

namespace fathom {
namespace {

using Calls = std::vector<ToolCall>;
constexpr auto kV3 = ToolSyntax::deepseek_v3, kV31 = ToolSyntax::deepseek_v31, kKimi = ToolSyntax::kimi_k2,
               kJson = ToolSyntax::json, kNone = ToolSyntax::none;

std::string v3_call(const std::string& name, const std::string& arguments) {
  return "<｜tool▁call▁begin｜>function<｜tool▁sep｜>" + name + "\n```json\n" + arguments + "\n```<｜tool▁call▁end｜>";
}
std::string v31_call(const std::string& name, const std::string& arguments) {
  return "<｜tool▁call▁begin｜>" + name + "<｜tool▁sep｜>" + arguments + "<｜tool▁call▁end｜>";
}
std::string section(const std::string& calls) { return "<｜tool▁calls▁begin｜>" + calls + "<｜tool▁calls▁end｜>"; }
std::string kimi_call(const std::string& id, const std::string& arguments) {
  return "<|tool_call_begin|>" + id + "<|tool_call_argument_begin|>" + arguments + "<|tool_call_end|>";
}
std::string kimi_section(const std::string& calls) {
  return "<|tool_calls_section_begin|>" + calls + "<|tool_calls_section_end|>";
}

struct Case {
  OutputFormat format;
  std::string text;
  ParsedOutput expected;
};

OutputFormat think(bool opened, ToolSyntax tools = kNone) { return {true, opened, tools}; }
OutputFormat plain(ToolSyntax tools) { return {false, false, tools}; }
// The text is what it is: nothing to take out of it.
Case stays(const OutputFormat& format, const std::string& text) { return {format, text, {"", text, {}}}; }

std::vector<Case> reasoning_cases() {
  return {
      {think(true), "why\nnot\n</think>\n\nA\n", {"why\nnot", "A\n", {}}},
      {think(true), "cut off in the reas", {"cut off in the reas", "", {}}},
      {think(true), "cut in the tag</thi", {"cut in the tag</thi", "", {}}},
      {think(true), "\n", {"", "", {}}},
      {think(true), "", {"", "", {}}},
      {think(true), "<think>\nsaid again</think>yes", {"said again", "yes", {}}},
      {think(true), "<thing>a</think>b", {"<thing>a", "b", {}}},
      {think(true), "</think>only", {"", "only", {}}},
      {think(true), "a</think>b</think>c", {"a", "b</think>c", {}}},
      {think(false), "<think>r</think>a", {"r", "a", {}}},
      {think(false), " \n<think>\n\nr 中文🙂\n\n</think>\n\n\na", {"r 中文🙂", "a", {}}},
      {think(false), "<think>never ended", {"never ended", "", {}}},
      {think(false), "<thin", {"", "<thin", {}}},
      {think(false), "  text with <think>a tag</think> in it\n", {"", "  text with <think>a tag</think> in it\n", {}}},
      stays(plain(kNone), "<think>not of this model</think> x \n"),
      stays(plain(kNone), section(v3_call("f", "{}"))),
  };
}

std::vector<Case> deepseek_cases() {
  const std::string two = section(v3_call("f", "{\"a\": 1}") + "\n" + v3_call("g.h", "{}"));
  const std::string broken = section(v3_call("f", "{\"a\": 1}") + "\n" + v3_call("g", "{\"a\": "));
  return {
      {plain(kV3), two, {"", "", {{"", "f", "{\"a\": 1}"}, {"", "g.h", "{}"}}}},
      {plain(kV3), "Let me see. " + two, {"", "Let me see. ", {{"", "f", "{\"a\": 1}"}, {"", "g.h", "{}"}}}},
      {plain(kV3), "<｜tool▁calls▁begin｜>" + v3_call("f", "{}"), {"", "", {{"", "f", "{}"}}}},
      {plain(kV3), "<｜tool▁calls▁begin｜>" + v3_call("f", "{}") + " and on", {"", " and on", {{"", "f", "{}"}}}},
      {plain(kV3), section(v3_call("f", "{}")) + "\n", {"", "", {{"", "f", "{}"}}}},
      {think(true, kV3),
       "r" + section(v3_call("f", "{}")) + "\n</think>\n\n" + section(v3_call("g", "[{}]")),
       {"r" + section(v3_call("f", "{}")), section(v3_call("g", "[{}]")), {}}},
      {think(true, kV3), "r</think>\n\n" + two, {"r", "", {{"", "f", "{\"a\": 1}"}, {"", "g.h", "{}"}}}},
      {plain(kV31),
       section(v31_call("f", "{\"城\": [1.50]}") + v31_call("g", "")),
       {"", "", {{"", "f", "{\"城\": [1.50]}"}, {"", "g", "{}"}}}},
      stays(plain(kV3), broken),
      stays(plain(kV3), " x \n" + broken + "\n y "),
      stays(plain(kV3), section("")),
      stays(plain(kV3), section(" talk ")),
      stays(plain(kV3), section(v31_call("f", "{}"))),
      stays(plain(kV3), section(v3_call("", "{}"))),
      stays(plain(kV3), section(v3_call("f", "{} {}"))),
      stays(plain(kV3),
            section("<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json```<｜tool▁call▁end｜>").substr(0, 60)),
      stays(plain(kV3),
            "<｜tool▁calls▁begin｜>" + v3_call("f", "{}") + "\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n"),
      stays(plain(kV3), v3_call("f", "{}")),
      stays(plain(kV3), "<｜tool▁calls▁beg"),
      stays(plain(kV31), section(v3_call("f", "{}"))),
      stays(plain(kV31), section("<｜tool▁call▁begin｜>f{}<｜tool▁call▁end｜>")),
  };
}

std::vector<Case> kimi_cases() {
  const std::string two =
      kimi_section(kimi_call("functions.get_weather:0", "{\"city\": \"北京\"}") + kimi_call("functions.a.b:12", "{}"));
  const Calls calls{{"functions.get_weather:0", "get_weather", "{\"city\": \"北京\"}"},
                    {"functions.a.b:12", "a.b", "{}"}};
  return {
      {plain(kKimi), two, {"", "", calls}},
      {plain(kKimi), "Well, " + two, {"", "Well, ", calls}},
      {think(true, kKimi), "hm</think>" + two, {"hm", "", calls}},
      stays(plain(kKimi), kimi_section(kimi_call("get_weather", "{}"))),
      stays(plain(kKimi), kimi_section(kimi_call("functions.f:", "{}"))),
      stays(plain(kKimi), kimi_section(kimi_call("functions.f:x", "{}"))),
      stays(plain(kKimi), kimi_section(kimi_call("functions.:0", "{}"))),
      stays(plain(kKimi), kimi_section(kimi_call("functions.f:0", "{'a': 1}"))),
      stays(plain(kKimi), two.substr(0, two.size() - 40)),
  };
}

std::vector<Case> json_cases() {
  const std::string f =
      "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": 1.0, \"d\": {\"name\": 2}}}\n</tool_call>";
  const std::string g =
      "<tool_call>{\"arguments\":{\"t\":\"</tool_call> \\\" }\"},\"id\":[1,{}],\"name\":\"g\\u00e9\"}</tool_call>";
  const ToolCall fc{"", "f", "{\"n\": 1.0, \"d\": {\"name\": 2}}"}, gc{"", "gé", "{\"t\":\"</tool_call> \\\" }\"}"};
  const std::string broken = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": }}\n</tool_call>";
  return {
      {plain(kJson), f, {"", "", {fc}}},
      {plain(kJson), "I look.\n\n" + f + "\n" + g + "\n", {"", "I look.", {fc, gc}}},
      {plain(kJson), f + "\nand " + g, {"", "\nand", {fc, gc}}},
      {think(false, kJson), "<think>\n" + f + "</think>\n\n" + f, {f, "", {fc}}},
      {plain(kJson),
       "<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}</tool_call>",
       {"", "", {{"", "f", "{\"a\":1}"}}}},
      {plain(kJson), broken + "\n" + f, {"", broken, {fc}}},
      stays(plain(kJson), " a " + broken + " b "),
      stays(plain(kJson), "write <tool_call> and </tool_call> around it"),
      stays(plain(kJson), "<tool_call>{\"name\": \"f\"}</tool_call>"),
      stays(plain(kJson), "<tool_call>{\"arguments\": {}}</tool_call>"),
      stays(plain(kJson), "<tool_call>{\"name\": 1, \"arguments\": {}}</tool_call>"),
      stays(plain(kJson), "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>"),
      stays(plain(kJson), "<tool_call>{\"name\": \"f\", \"arguments\": {}}}</tool_call>"),
      stays(plain(kJson), f.substr(0, f.size() - 1)),
      stays(plain(kJson), "<tool_call>{\"name\": \"\xFF\", \"arguments\": {}}</tool_call>"),
      stays(plain(kJson), " \n "),
  };
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const auto& some : {reasoning_cases(), deepseek_cases(), kimi_cases(), json_cases()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

std::string show(const ParsedOutput& output) {
  std::string text = "reasoning {" + output.reasoning + "} content {" + output.content + "}";
  for (const ToolCall& call : output.tool_calls)
    text += " call {" + call.id + "|" + call.name + "|" + call.arguments + "}";
  return text;
}

// What comes of a text cut at these places.
ParsedOutput cut_at(const OutputFormat& format, std::string_view text, const std::vector<std::size_t>& cuts) {
  OutputParser parser(format);
  ParsedOutput out;
  std::size_t from = 0;
  for (const std::size_t cut : cuts) {
    for (const OutputDelta& delta : parser.push(text.substr(from, cut - from))) out.append(delta);
    from = cut;
  }
  for (const OutputDelta& delta : parser.push(text.substr(from))) out.append(delta);
  for (const OutputDelta& delta : parser.finish()) out.append(delta);
  return out;
}

TEST(OutputParser, WholeTexts) {
  for (const Case& c : all_cases()) EXPECT_EQ(show(parse_output(c.format, c.text)), show(c.expected)) << c.text;
}

TEST(OutputParser, EveryCutGivesTheSame) {
  for (const Case& c : all_cases()) {
    std::vector<std::size_t> every;
    for (std::size_t i = 0; i < c.text.size(); ++i) {
      every.push_back(i);
      ASSERT_EQ(show(cut_at(c.format, c.text, {i})), show(c.expected)) << c.text << " cut at " << i;
    }
    ASSERT_EQ(show(cut_at(c.format, c.text, every)), show(c.expected)) << c.text << " byte by byte";
  }
}

// Texts put together from pieces of all formats: whole, broken, nested.
TEST(OutputParser, RandomTextsRandomCuts) {
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  std::vector<std::string> parts{"<think>",
                                 "</think>",
                                 "\n",
                                 " ",
                                 "a",
                                 "{",
                                 "}",
                                 "\"",
                                 "<",
                                 "</tool_call>",
                                 "<tool_call>",
                                 "<｜tool▁calls▁begin｜>",
                                 "<｜tool▁calls▁end｜>",
                                 "<|tool_calls_section_begin|>",
                                 "<|tool_calls_section_end|>",
                                 "中"};
  for (const Case& c : all_cases()) parts.push_back(c.text);
  parts.push_back(v3_call("f", "{}")), parts.push_back(v31_call("f", "{}")),
      parts.push_back(kimi_call("functions.f:0", "{}"));
  const std::vector<ToolSyntax> tools{kNone, kV3, kV31, kKimi, kJson};
  for (int round = 0; round < 20000; ++round) {
    const OutputFormat format{below(2) == 0, below(4) == 0, tools[below(tools.size())]};
    std::string text;
    for (std::size_t n = below(8); n > 0; --n) {
      const std::string& part = parts[below(parts.size())];
      text += below(4) > 0 ? part : part.substr(0, below(part.size() + 1));
    }
    std::vector<std::size_t> cuts;
    for (std::size_t at = 0; at + 1 < text.size();) cuts.push_back(at += 1 + below(9));
    if (!cuts.empty() && cuts.back() > text.size()) cuts.pop_back();
    ASSERT_EQ(show(cut_at(format, text, cuts)), show(parse_output(format, text))) << text;
  }
}

TEST(OutputParser, TextComesAsSoonAsItIsCertain) {
  OutputParser parser(think(true, kJson));
  const auto texts = [](const std::vector<OutputDelta>& deltas) {
    std::string all;
    for (const OutputDelta& delta : deltas)
      all += delta.kind == OutputDelta::Kind::tool_call ? "!" + delta.call.name : delta.text;
    return all;
  };
  EXPECT_EQ(texts(parser.push("we think")), "we think");
  EXPECT_EQ(texts(parser.push(" </thin")), " ");
  EXPECT_EQ(texts(parser.push("k>\n\nHello")), "Hello");
  EXPECT_EQ(texts(parser.push(" you <tool")), " you");
  EXPECT_EQ(texts(parser.push("s> <tool_call>")), " <tools>");
  EXPECT_EQ(texts(parser.push("{\"name\":\"f\",\"arguments\":{}}")), "");
  EXPECT_EQ(texts(parser.push("</tool_call>")), "!f");
  EXPECT_EQ(texts(parser.finish()), "");
}

// A quadratic parser takes minutes for this.
TEST(OutputParser, LongTextsByteByByte) {
  const auto many = [](std::string_view part, std::size_t bytes) {
    std::string text;
    while (text.size() < bytes) text += part;
    return text;
  };
  for (const ToolSyntax tools : {kV3, kKimi, kJson})
    for (const std::string& text :
         {std::string(tool_markers(tools).opener()) + many(" ", 300000), many(tool_markers(tools).opener(), 300000),
          many(" ", 300000), many("\n", 300000), many("<tool_call>{\"", 300000),
          std::string(tool_markers(tools).opener()) + many(tool_markers(tools).call_begin, 300000)}) {
      OutputParser parser(think(false, tools));
      ParsedOutput out;
      for (const char c : text)
        for (const OutputDelta& delta : parser.push(std::string_view(&c, 1))) out.append(delta);
      for (const OutputDelta& delta : parser.finish()) out.append(delta);
      EXPECT_EQ(out.content == text, true) << text.substr(0, 60);
    }
}

TEST(OutputFormat, AsTheTemplateShows) {
  const auto detect = [](const std::string& source, const std::string& prompt = "<｜Assistant｜>") {
    return detect_output_format(source, prompt);
  };
  EXPECT_EQ(detect("{{ x }}"), plain(kNone));
  EXPECT_EQ(detect("<｜tool▁calls▁begin｜> '```json'"), plain(kV3));
  EXPECT_EQ(detect("</think><｜tool▁calls▁begin｜>"), think(false, kV31));
  EXPECT_EQ(detect("<|tool_calls_section_begin|><tool_call>"), plain(kKimi));
  EXPECT_EQ(detect("<tool_call>{\\\"name\\\": , \\\"arguments\\\": }</tool_call>"), plain(kJson));
  EXPECT_EQ(detect("<tool_call><function=f> arguments"), plain(kNone));
  EXPECT_EQ(detect("<tool_call> arguments <arg_key>"), plain(kNone));
  EXPECT_EQ(detect("content.split('</think>')", "<｜Assistant｜><think>\n"), think(true));
  EXPECT_EQ(detect("", "<｜Assistant｜><think>"), think(true));
  EXPECT_EQ(detect("</think>", "<think>\n\n</think>\n\n"), think(false));
  EXPECT_EQ(detect("</think>", "say <think> aloud"), think(false));
  EXPECT_EQ(detect("", ""), plain(kNone));
}

}  // namespace
}  // namespace fathom
