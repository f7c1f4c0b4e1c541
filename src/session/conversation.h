// The messages of one conversation so far.
#pragma once

#include <string>
#include <vector>

#include "session/prompt.h"

namespace fathom {

// A conversation: a system message if there is one, then turns.
class Conversation {
 public:
  explicit Conversation(const std::string& system) {
    if (!system.empty()) messages_.push_back({"system", system});
    first_ = messages_.size();
  }
  void clear() { messages_.resize(first_); }
  void ask(const std::string& text) { messages_.push_back({"user", text}); }
  void answer(const std::string& text) { messages_.push_back({"assistant", text}); }
  // Takes back a question that got no answer.
  void withdraw() { messages_.pop_back(); }
  const std::vector<Message>& messages() const { return messages_; }

 private:
  std::vector<Message> messages_;
  std::size_t first_ = 0;  // messages that clear() keeps
};

}  // namespace fathom
