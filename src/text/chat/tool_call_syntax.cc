#include "text/chat/tool_call_syntax.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace fathom {
namespace {

using nlohmann::json;

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::string_view kSeparator = "<｜tool▁sep｜>";
constexpr std::string_view kFence = "```";
constexpr std::string_view kArgumentBegin = "<|tool_call_argument_begin|>";
constexpr std::string_view kFunctions = "functions.";

std::string_view trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// The texts before and after the first `separator`.
std::optional<std::pair<std::string_view, std::string_view>> cut(std::string_view text, std::string_view separator) {
  const std::size_t at = text.find(separator);
  if (at == std::string_view::npos) return std::nullopt;
  return std::pair(text.substr(0, at), text.substr(at + separator.size()));
}

// Nothing written means no arguments.
std::optional<ToolCall> make_call(std::string_view id, std::string_view name, std::string_view arguments) {
  name = trim(name), arguments = trim(arguments);
  if (arguments.empty()) arguments = "{}";
  if (name.empty() || name.find_first_of("\r\n<") != std::string_view::npos) return std::nullopt;
  if (arguments[0] != '{' || !json::accept(arguments)) return std::nullopt;
  return ToolCall{std::string(id), std::string(name), std::string(arguments)};
}

std::optional<ToolCall> read_deepseek_v3(std::string_view text) {
  const auto parts = cut(text, kSeparator);
  if (!parts || trim(parts->first) != "function") return std::nullopt;
  auto lines = cut(parts->second, "\n");
  if (!lines) return std::nullopt;
  std::string_view block = trim(lines->second);
  if (!block.starts_with("```json") || !block.ends_with(kFence) || block.size() < 10) return std::nullopt;
  return make_call({}, lines->first, block.substr(7, block.size() - 10));
}

std::optional<ToolCall> read_deepseek_v31(std::string_view text) {
  const auto parts = cut(text, kSeparator);
  return parts ? make_call({}, parts->first, parts->second) : std::nullopt;
}

std::optional<ToolCall> read_kimi_k2(std::string_view text) {
  const auto parts = cut(text, kArgumentBegin);
  if (!parts) return std::nullopt;
  const std::string_view id = trim(parts->first);
  const std::size_t colon = id.rfind(':');
  if (!id.starts_with(kFunctions) || colon == std::string_view::npos || colon < kFunctions.size()) return std::nullopt;
  const std::string_view number = id.substr(colon + 1);
  const bool digits = std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (number.empty() || !digits) return std::nullopt;
  return make_call(id, id.substr(kFunctions.size(), colon - kFunctions.size()), parts->second);
}

// The text of a field of a valid JSON object, as it is written there; empty if it is missing.
std::string_view field_of(std::string_view object, std::string_view wanted) {
  JsonCursor cursor;
  int depth = 0;
  bool is_key = true;
  std::string_view key, value;
  std::size_t begin = 1;  // of the key or value under way
  for (std::size_t i = 0; i < object.size(); ++i) {
    const char c = object[i];
    cursor.take(c);
    if (cursor.in_string()) continue;
    const bool open = c == '{' || c == '[', close = c == '}' || c == ']';
    if (open) ++depth;
    if (depth == 1 && is_key && c == ':') {
      key = trim(object.substr(begin, i - begin));
      is_key = false, begin = i + 1;
    } else if (depth == 1 && !is_key && (c == ',' || c == '}')) {
      if (key == wanted) value = trim(object.substr(begin, i - begin));
      is_key = true, begin = i + 1;
    }
    if (close) --depth;
  }
  return value;
}

// Some models write the arguments as a string that holds JSON.
std::optional<ToolCall> read_json(std::string_view text) {
  text = trim(text);
  if (!text.starts_with('{') || !json::accept(text)) return std::nullopt;
  const std::string_view name = field_of(text, "\"name\""), arguments = field_of(text, "\"arguments\"");
  if (!name.starts_with('"') || arguments.empty()) return std::nullopt;
  const auto plain = json::parse(name).get<std::string>();
  if (!arguments.starts_with('"')) return make_call({}, plain, arguments);
  return make_call({}, plain, json::parse(arguments).get<std::string>());
}

}  // namespace

ToolSyntax detect_tool_syntax(std::string_view source) {
  if (contains(source, "<|tool_calls_section_begin|>")) return ToolSyntax::kimi_k2;
  if (contains(source, "<｜tool▁calls▁begin｜>"))
    return contains(source, "```json") ? ToolSyntax::deepseek_v3 : ToolSyntax::deepseek_v31;
  // Others write XML or arguments one by one within the same tags.
  const bool foreign = contains(source, "<function=") || contains(source, "<arg_key>");
  if (contains(source, "<tool_call>") && contains(source, "arguments") && !foreign) return ToolSyntax::json;
  return ToolSyntax::none;
}

ToolMarkers tool_markers(ToolSyntax syntax) {
  switch (syntax) {
    case ToolSyntax::deepseek_v3:
    case ToolSyntax::deepseek_v31:
      return {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"};
    case ToolSyntax::kimi_k2:
      return {"<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_end|>", "<|tool_calls_section_end|>"};
    case ToolSyntax::json:
      return {"", "<tool_call>", "</tool_call>", ""};
    case ToolSyntax::none:
      break;
  }
  return {};
}

std::optional<ToolCall> read_tool_call(ToolSyntax syntax, std::string_view text) {
  switch (syntax) {
    case ToolSyntax::deepseek_v3:
      return read_deepseek_v3(text);
    case ToolSyntax::deepseek_v31:
      return read_deepseek_v31(text);
    case ToolSyntax::kimi_k2:
      return read_kimi_k2(text);
    case ToolSyntax::json:
      return read_json(text);
    case ToolSyntax::none:
      break;
  }
  return std::nullopt;
}

}  // namespace fathom
