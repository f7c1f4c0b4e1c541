#include <unistd.h>

#include <memory>

#include "model/source.h"
#include "session/text_of_model.h"
#include "tools/command.h"
#include "tools/commands.h"
#include "tools/conversation_loop.h"
#include "tools/embedded_model.h"
#include "tools/model_flags.h"
#include "tools/output.h"

namespace fathom {
namespace {

constexpr const char* kHelp =
    "  /clear  forget the conversation\n"
    "  /stats  speed of the last answer, context used\n"
    "  /help   this list\n"
    "  /exit   end (also Ctrl-D)\n"
    "  Ctrl-C  stop the answer\n"
    "  \"\"\"     begins and ends a message of several lines; a pasted text is one message";

struct ChatFlags {
  std::string model;  // empty: the embedded one
  ModelFlags run;
  AnswerFlags answer;
};

class Chat {
 public:
  explicit Chat(const ChatFlags& flags)
      : flags_(flags),
        terminal_(::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0),
        source_(open_named_model(flags.model.empty() ? embedded_model() : flags.model, flags.run.config)),
        session_(load_session(source_, flags.run)),
        prompts_(session_.tokenizer(), load_chat_template(source_, flags.answer.chat_template),
                 flags.answer.allow_special_in_content) {}

  void run() {
    std::unique_ptr<InterruptFlag> interrupt;
    if (terminal_) {
      interrupt = std::make_unique<InterruptFlag>();
      note(fmt::format("{} ({} layers, context of {} tokens). /help lists the commands.",
                       source_.checkpoint->description(), session_.args().n_layers, session_.max_seq_len()));
    }
    session_.warm_up();
    LineReader reader(terminal_ ? "> " : "", terminal_);
    const ConversationEnd end =
        run_conversation(session_, prompts_, flags_.answer.options, Conversation(flags_.answer.system),
                         {.read = [&] { return reader.next(); },
                          .commands = {{"/help", [&] { note(kHelp); }},
                                       {"/stats", [&] { note(stats_.empty() ? "no answer yet" : stats_); }}},
                          .skips_empty_lines = true,
                          .prepare = [&](Request& request) { prepare(request); },
                          .interrupted = terminal_ ? &InterruptFlag::take : std::function<bool()>(),
                          .show = [](i64, const std::string& text) { write_output(text); },
                          .finish = [&](const std::vector<Message>&, const Reply& reply) { finish(reply); }});
    if (terminal_ && !end.left) write_output("\n");
    if (!terminal_ && end.failed) throw ToldError();
  }

 private:
  // Notes are for people: with a pipe, standard output holds answers alone.
  void note(const std::string& text) const { terminal_ ? write_output(text + "\n") : write_note(text + "\n"); }

  void prepare(Request& request) const {
    if (request.max_new_tokens == 0) request.max_new_tokens = session_.max_seq_len();
  }

  void finish(const Reply& reply) {
    write_output("\n");
    if (reply.finish() == "error") return;
    if (terminal_ && reply.finish() == "length") note("[the answer was cut: it reached its longest length]");
    if (terminal_ && reply.finish() == "interrupted") note("[stopped]");
    const Usage& usage = reply.usage();
    const double decoding = reply.seconds() - reply.seconds_to_first();
    stats_ = fmt::format(
        "{} tokens at {:.1f} tokens/s, first after {:.3f} s; prompt of {} tokens, {} from the cache; context {} of {}",
        usage.completion_tokens,
        usage.completion_tokens > 1 && decoding > 0 ? static_cast<double>(usage.completion_tokens - 1) / decoding : 0.0,
        reply.seconds_to_first(), usage.prompt_tokens, usage.cached_tokens,
        usage.prompt_tokens + usage.completion_tokens, session_.max_seq_len());
  }

  ChatFlags flags_;
  bool terminal_;
  ModelSource source_;
  Session session_;
  PromptBuilder prompts_;
  std::string stats_;
};

}  // namespace

void add_chat(CLI::App& app) {
  Command command(app, "chat", "Chat with a model in the terminal; with a pipe, one message a line");
  const auto flags = std::make_shared<ChatFlags>();
  flags->answer.options.max_new_tokens = 0;
  command.option("model", flags->model, "Model directory (Hugging Face or converted); else the embedded model");
  command.option("--config", flags->run.config, "Configuration, where the directory has none");
  add_model_flags(command, flags->run);
  add_answer_flags(command, flags->answer, "Longest answer; 0: until the context is full");
  command.run([flags] {
    flags->run.session.max_batch_size = 1;  // there is one conversation
    Chat(*flags).run();
  });
}

}  // namespace fathom
