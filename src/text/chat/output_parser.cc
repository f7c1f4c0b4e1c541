#include "text/chat/output_parser.h"

#include <algorithm>
#include <utility>

namespace fathom {
namespace {

constexpr std::string_view kThink = "<think>", kThinkEnd = "</think>";
constexpr std::string_view kSpace = " \t\r\n";

bool is_space(char c) { return kSpace.find(c) != std::string_view::npos; }

// How many bytes at the end of a text may be the beginning of the marker.
std::size_t partial(std::string_view text, std::string_view marker) {
  for (std::size_t n = std::min(text.size(), marker.size() - 1); n > 0; --n)
    if (text.ends_with(marker.substr(0, n))) return n;
  return 0;
}

}  // namespace

OutputFormat detect_output_format(const std::string& template_source, const std::string& rendered_prompt) {
  OutputFormat format;
  const std::size_t end = rendered_prompt.find_last_not_of(kSpace) + 1;
  format.opened = std::string_view(rendered_prompt).substr(0, end).ends_with(kThink);
  format.reasoning = format.opened || template_source.find(kThinkEnd) != std::string::npos;
  format.tools = detect_tool_syntax(template_source);
  return format;
}

OutputParser::OutputParser(const OutputFormat& format)
    : format_(format),
      markers_(tool_markers(format.tools)),
      state_(format.reasoning || format.opened ? State::start : State::content) {}

std::vector<OutputDelta> OutputParser::push(std::string_view text) {
  buffer_ += text;
  while (step()) {
  }
  buffer_.erase(0, at_);
  scan_ -= std::min(scan_, at_);
  body_ -= std::min(body_, at_);
  at_ = 0;
  return std::exchange(out_, {});
}

std::vector<OutputDelta> OutputParser::finish() {
  if (state_ == State::start && format_.opened) {
    skip_newlines_ = true;
    state_ = State::reasoning;
  }
  if (state_ == State::reasoning) {
    give(Kind::reasoning, rest());
    return std::exchange(out_, {});
  }
  if (state_ == State::next_call && !calls_.empty()) close_section();
  give_content(rest());
  if (!after_call_) give(Kind::content, std::exchange(space_, {}));
  return std::exchange(out_, {});
}

// Goes on as far as the text allows; false when more text is needed.
bool OutputParser::step() {
  switch (state_) {
    case State::start:
      return begin();
    case State::reasoning:
      return reason();
    case State::content:
      return read_content();
    case State::next_call:
      return next_call();
    case State::call:
      return read_call();
  }
  return false;
}

// A model may repeat the tag that the prompt ends in.
bool OutputParser::begin() {
  while (scan_ < buffer_.size() && is_space(buffer_[scan_])) ++scan_;
  const Find tag = begins_with(scan_, kThink);
  if (tag == Find::unsure) return false;
  if (tag == Find::found) at_ = scan_ + kThink.size();
  const bool thinks = tag == Find::found || format_.opened;
  skip_newlines_ = thinks;
  state_ = thinks ? State::reasoning : State::content;
  return true;
}

bool OutputParser::reason() {
  const std::size_t end = rest().find(kThinkEnd);
  if (end == std::string_view::npos) {
    const std::size_t sure = rest().size() - partial(rest(), kThinkEnd);
    give(Kind::reasoning, rest().substr(0, sure));
    at_ += sure;
    return false;
  }
  give(Kind::reasoning, rest().substr(0, end));
  at_ += end + kThinkEnd.size();
  space_.clear();
  skip_newlines_ = true;
  state_ = State::content;
  return true;
}

bool OutputParser::read_content() {
  const std::string_view text = rest(), opener = markers_.opener();
  const std::size_t begin = opener.empty() ? std::string_view::npos : text.find(opener);
  if (begin == std::string_view::npos) {
    const std::size_t sure = opener.empty() ? text.size() : text.size() - partial(text, opener);
    give_content(text.substr(0, sure));
    at_ += sure;
    return false;
  }
  give_content(text.substr(0, begin));
  at_ += begin;
  scan_ = body_ = at_ + opener.size();
  cursor_ = {};
  state_ = markers_.section_begin.empty() ? State::call : State::next_call;
  return true;
}

// Between calls; body_ is where the last one ended. A section without its end marker ends at the first other text: the
// template of DeepSeek-V3 leaves the marker out after a single call.
bool OutputParser::next_call() {
  while (scan_ < buffer_.size() && is_space(buffer_[scan_])) ++scan_;
  const Find call = begins_with(scan_, markers_.call_begin);
  const Find end = calls_.empty() ? Find::absent : begins_with(scan_, markers_.section_end);
  if (call == Find::found) {
    scan_ = body_ = scan_ + markers_.call_begin.size();
    state_ = State::call;
    return true;
  }
  if (end == Find::found) {
    body_ = scan_ + markers_.section_end.size();
    close_section();
    return true;
  }
  if (call == Find::unsure || end == Find::unsure) return false;
  calls_.empty() ? break_section(scan_) : close_section();
  return true;
}

bool OutputParser::read_call() {
  if (format_.tools == ToolSyntax::json) {
    while (body_ < buffer_.size() && is_space(buffer_[body_])) ++body_;
    if (body_ == buffer_.size()) return false;
    if (buffer_[body_] != '{') {  // talk about the tag, not a call
      break_section(body_);
      return true;
    }
    scan_ = std::max(scan_, body_);
  }
  if (!find_call_end()) return false;
  auto call = read_tool_call(format_.tools, std::string_view(buffer_).substr(body_, scan_ - body_));
  scan_ += markers_.call_end.size();
  body_ = scan_;
  if (!call) {
    break_section(scan_);
    return true;
  }
  calls_.push_back(std::move(*call));
  state_ = State::next_call;
  if (markers_.section_begin.empty()) close_section();
  return true;
}

OutputParser::Find OutputParser::begins_with(std::size_t from, std::string_view marker) const {
  const std::string_view text = std::string_view(buffer_).substr(from, marker.size());
  if (text == marker) return Find::found;
  return marker.starts_with(text) ? Find::unsure : Find::absent;
}

// A JSON call may hold its own end tag in a string; the others' markers are tokens, which arguments do not hold.
bool OutputParser::find_call_end() {
  const std::string_view marker = markers_.call_end;
  if (format_.tools != ToolSyntax::json) {
    const std::size_t end = buffer_.find(marker, scan_);
    const bool found = end != std::string::npos;
    scan_ = found ? end : std::max(scan_, buffer_.size() - std::min(buffer_.size(), marker.size() - 1));
    return found;
  }
  for (; scan_ < buffer_.size(); ++scan_) {
    const Find end = !cursor_.in_string() && buffer_[scan_] == '<' ? begins_with(scan_, marker) : Find::absent;
    if (end != Find::absent) return end == Find::found;
    cursor_.take(buffer_[scan_]);
  }
  return false;
}

// Text of the reasoning comes without newlines at its ends, content as it is; neighbours of a kind are joined.
void OutputParser::give(Kind kind, std::string_view text) {
  std::string joined;
  if (kind == Kind::reasoning) {
    if (skip_newlines_) text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
    const std::size_t size = text.find_last_not_of('\n') + 1;
    if (size == 0) {
      space_ += text;
      return;
    }
    skip_newlines_ = false;
    joined = std::exchange(space_, std::string(text.substr(size)));
    text = text.substr(0, size);
  }
  joined += text;
  if (joined.empty()) return;
  if (!out_.empty() && out_.back().kind == kind)
    out_.back().text += joined;
  else
    out_.push_back({kind, std::move(joined), {}});
}

void OutputParser::give_content(std::string_view text) {
  if (skip_newlines_) text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  if (text.empty()) return;
  skip_newlines_ = false;
  const std::size_t size = markers_.opener().empty() ? text.size() : text.find_last_not_of(kSpace) + 1;
  if (size > 0) {
    give(Kind::content, std::exchange(space_, {}));
    give(Kind::content, text.substr(0, size));
    has_content_ = true;
    after_call_ = false;
  }
  space_ += text.substr(size);
}

// Gives the calls out; white space in front of them belongs to the content only where the template writes none there.
void OutputParser::close_section() {
  const bool drop = after_call_ || !has_content_ || format_.tools == ToolSyntax::json;
  const std::string space = std::exchange(space_, {});
  if (!drop) give(Kind::content, space);
  for (ToolCall& call : calls_) out_.push_back({Kind::tool_call, {}, std::move(call)});
  calls_.clear();
  after_call_ = true;
  skip_newlines_ = false;
  at_ = scan_ = body_;
  state_ = State::content;
}

// The section up to `end` is text.
void OutputParser::break_section(std::size_t end) {
  give_content(std::string_view(buffer_).substr(at_, end - at_));
  calls_.clear();
  at_ = scan_ = end;
  state_ = State::content;
}

void ParsedOutput::append(const OutputDelta& delta) {
  if (delta.kind == OutputDelta::Kind::tool_call)
    tool_calls.push_back(delta.call);
  else
    (delta.kind == OutputDelta::Kind::reasoning ? reasoning : content) += delta.text;
}

ParsedOutput parse_output(const OutputFormat& format, std::string_view text) {
  ParsedOutput out;
  OutputParser parser(format);
  for (const OutputDelta& delta : parser.push(text)) out.append(delta);
  for (const OutputDelta& delta : parser.finish()) out.append(delta);
  return out;
}

}  // namespace fathom
