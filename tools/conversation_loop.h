// The loop of a conversation: reads lines, carries out commands, has the model answer all others.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "session/conversation.h"
#include "session/session.h"
#include "tools/line_reader.h"

namespace fathom {

// What the conversation of one command has of its own.
struct ConversationHooks {
  std::function<LineReader::Result()> read;
  // Lines that are no question, besides /exit and /clear.
  std::map<std::string, std::function<void()>> commands = {};
  bool skips_empty_lines = false;
  // May change a request before it is submitted.
  std::function<void(Request&)> prepare = {};
  // Asked before each pass: true breaks the answer off. Without it Ctrl-C at the prompt ends the conversation.
  std::function<bool()> interrupted = {};
  // Hears the answer while it grows.
  Session::Listener show = {};
  // Hears each reply at its end, failed ones included; the messages end with the question.
  std::function<void(const std::vector<Message>&, const Reply&)> finish;
};

struct ConversationEnd {
  bool left = false;    // by /exit, not by the end of the input
  bool failed = false;  // a question was not answered
};

// Talks until /exit or the end of the input. A question that is not answered is told on stderr and leaves the
// conversation as it was.
ConversationEnd run_conversation(Session& session, const PromptBuilder& prompts, const AnswerOptions& options,
                                 Conversation conversation, const ConversationHooks& hooks);

}  // namespace fathom
