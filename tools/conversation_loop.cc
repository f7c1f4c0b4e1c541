#include "tools/conversation_loop.h"

#include "tools/output.h"

namespace fathom {

ConversationEnd run_conversation(Session& session, const PromptBuilder& prompts, const AnswerOptions& options,
                                 Conversation conversation, const ConversationHooks& hooks) {
  ConversationEnd end;
  const auto refuse = [&](const std::string& why) {
    conversation.withdraw();
    print_error(why);
    end.failed = true;
  };
  i64 turn = 0;
  const auto ask = [&](const std::string& question) {
    conversation.ask(question);
    Request request = session.request(turn, prompts.build(conversation.messages()), options, turn);
    if (hooks.prepare) hooks.prepare(request);
    if (const auto tokens = static_cast<i64>(request.prompt.size()); tokens >= session.max_seq_len())
      return refuse(
          fmt::format("Prompt length exceeds model maximum sequence length (max_seq_len={}): the conversation has {} "
                      "tokens and leaves no room for an answer; /clear begins a new one",
                      session.max_seq_len(), tokens));
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
    end.left = line.text == "/exit";
    if (line.kind != LineReader::Kind::line || end.left) return end;
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
