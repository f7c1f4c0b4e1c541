// The ways in which models write tool calls.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fathom {

enum class ToolSyntax {
  none,
  deepseek_v3,   // function, separator, name, arguments in a fenced block
  deepseek_v31,  // name, separator, arguments
  kimi_k2,       // functions.NAME:NUMBER, marker, arguments
  json           // <tool_call>{"name": ..., "arguments": ...}</tool_call>, as Hermes and Qwen write it
};

struct ToolCall {
  std::string id;  // empty where the model writes none
  std::string name;
  std::string arguments;  // the text of a JSON object, as the model wrote it

  bool operator==(const ToolCall&) const = default;
};

// The texts around calls; those of a section are empty where calls stand alone.
struct ToolMarkers {
  std::string_view section_begin, call_begin, call_end, section_end;

  std::string_view opener() const { return section_begin.empty() ? call_begin : section_begin; }
};

// The syntax that a chat template shows, and its markers.
ToolSyntax detect_tool_syntax(std::string_view template_source);
ToolMarkers tool_markers(ToolSyntax syntax);

// The call that stands between its two markers; nothing if it is broken.
std::optional<ToolCall> read_tool_call(ToolSyntax syntax, std::string_view text);

// Knows whether a text read byte by byte is within a JSON string.
class JsonCursor {
 public:
  void take(char c) {
    if (escaped_)
      escaped_ = false;
    else if (in_string_ && c == '\\')
      escaped_ = true;
    else if (c == '"')
      in_string_ = !in_string_;
  }
  bool in_string() const { return in_string_; }

 private:
  bool in_string_ = false, escaped_ = false;
};

}  // namespace fathom
