// What a model wrote, taken apart as its chat template shows it: reasoning, content and tool calls, also while it
// comes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/tool_call_syntax.h"

namespace fathom {

// How a model marks reasoning and tool calls.
struct OutputFormat {
  bool reasoning = false;  // between <think> and </think>
  bool opened = false;     // the prompt ends in <think>: the text begins within the reasoning
  ToolSyntax tools = ToolSyntax::none;

  bool operator==(const OutputFormat&) const = default;
};

// The format that a template shows, for an answer to this prompt.
OutputFormat detect_output_format(const std::string& template_source, const std::string& rendered_prompt);

// A part of an answer that is certain: text to append, or a whole tool call.
struct OutputDelta {
  enum class Kind { reasoning, content, tool_call };
  Kind kind;
  std::string text;  // empty for a tool call
  ToolCall call;     // of a tool call

  bool operator==(const OutputDelta&) const = default;
};

// Takes an answer in pieces. However it is cut, the deltas join to the same reasoning, content and tool calls. Newlines
// beside <think> and </think>, and white space that only sets calls apart, belong to neither text. A call, or a section
// of calls, comes out once it is complete; one that is broken or cut off comes out as content, as it was written.
class OutputParser {
 public:
  explicit OutputParser(const OutputFormat& format);

  std::vector<OutputDelta> push(std::string_view text);
  // What was held back; afterwards the parser is spent.
  std::vector<OutputDelta> finish();

 private:
  enum class State { start, reasoning, content, next_call, call };
  enum class Find { found, absent, unsure };
  using Kind = OutputDelta::Kind;

  bool step();
  bool begin();
  bool reason();
  bool read_content();
  bool next_call();
  bool read_call();

  std::string_view rest() const { return std::string_view(buffer_).substr(at_); }
  // Whether the text at `from` begins with the marker; unsure while more text could make it so.
  Find begins_with(std::size_t from, std::string_view marker) const;
  // Moves scan_ to the call's end marker, or as far as is certain that there is none.
  bool find_call_end();
  void give(Kind kind, std::string_view text);
  void give_content(std::string_view text);
  void close_section();
  void break_section(std::size_t end);

  OutputFormat format_;
  ToolMarkers markers_;
  State state_ = State::start;
  std::string buffer_;    // what came and is not given out, from at_ on
  std::size_t at_ = 0;    // in state call and next_call: the beginning of the section
  std::size_t scan_ = 0;  // in these states: how far the section is understood
  std::size_t body_ = 0;  // in state call: where the call's text begins
  JsonCursor cursor_;     // in state call: of JSON read up to scan_
  bool skip_newlines_ = false, after_call_ = false, has_content_ = false;
  std::string space_;  // white space that may turn out to be of no meaning
  std::vector<ToolCall> calls_;
  std::vector<OutputDelta> out_;
};

// A whole answer.
struct ParsedOutput {
  std::string reasoning, content;
  std::vector<ToolCall> tool_calls;

  void append(const OutputDelta& delta);
  bool operator==(const ParsedOutput&) const = default;
};
ParsedOutput parse_output(const OutputFormat& format, std::string_view text);

}  // namespace fathom
