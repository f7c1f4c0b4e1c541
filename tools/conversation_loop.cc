#include "tools/conversation_loop.h"

#include <iostream>

namespace fathom {

bool run_conversation(Session& session, const PromptBuilder& prompts, const AnswerOptions& options,
                      Conversation conversation, const ConversationHooks& hooks) {
  const auto refuse = [&](const std::string& why) {
    conversation.withdraw();
    std::cerr << "fathom: error: " << why << std::endl;
  };
  i64 turn = 0;
  const auto ask = [&](const std::string& question) {
    conversation.ask(question);
    Request request = session.request(turn, prompts.build(conversation.messages()), options, turn);
    if (const std::string why = hooks.prepare ? hooks.prepare(request) : ""; !why.empty()) return refuse(why);
    std::map<i64, Reply> replies;
    const Reply& reply = replies.try_emplace(turn++, session.tokenizer(), options.stop).first->second;
    session.engine().submit(std::move(request));
    session.run(replies, hooks.show, hooks.interrupted);
    hooks.finish(conversation.messages(), reply);
    if (reply.finish() == "error") return refuse(reply.error());
    conversation.answer(reply.text());
  };
  for (;;) {
    const LineReader::Result line = hooks.read();
    if (line.kind == LineReader::Kind::interrupted && hooks.interrupted) continue;
    if (line.kind != LineReader::Kind::line) return false;
    if (line.text == "/exit") return true;
    if (line.text == "/clear") {
      conversation.clear();
    } else if (const auto command = hooks.commands.find(line.text); command != hooks.commands.end()) {
      command->second();
    } else if (!line.text.empty() || !hooks.skips_empty_lines) {
      ask(line.text);
    }
  }
}

}  // namespace fathom
