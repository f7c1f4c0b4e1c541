#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>

#include "model/source.h"
#include "session/conversation.h"
#include "session/prompt.h"
#include "session/session.h"
#include "session/text_of_model.h"
#include "tools/commands.h"
#include "tools/line_reader.h"
#include "tools/model_flags.h"

namespace fathom {
namespace {

constexpr const char* kHelp =
    "  /clear  forget the conversation\n"
    "  /stats  speed of the last answer, context used\n"
    "  /help   this list\n"
    "  /exit   end (also Ctrl-D)\n"
    "  Ctrl-C  stop the answer";

struct ChatFlags {
  std::string model;  // empty: the embedded one
  ModelFlags run;
  AnswerFlags answer;
};

// Where the embedded model lies: beside an installed program, else in the source tree.
std::string embedded_model() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const std::filesystem::path& place :
       {program.parent_path() / "../share/fathom/models/tiny", std::filesystem::path(FATHOM_SOURCE_DIR "/models/tiny")})
    if (std::filesystem::exists(place / "config.json", error)) return place.lexically_normal().string();
  fail("the embedded model is not at {}/models/tiny; name a model: fathom chat DIR", FATHOM_SOURCE_DIR);
}

class Chat {
 public:
  explicit Chat(const ChatFlags& flags)
      : flags_(flags),
        terminal_(::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0),
        source_(open_model(flags.model.empty() ? embedded_model() : flags.model, flags.run.config)),
        session_(load_session(source_, flags.run)),
        prompts_(session_.tokenizer(), load_chat_template(source_, flags.answer.chat_template),
                 flags.answer.allow_special_in_content),
        conversation_(flags.answer.system) {}

  void run() {
    std::unique_ptr<InterruptFlag> interrupt;
    if (terminal_) {
      interrupt = std::make_unique<InterruptFlag>();
      note(fmt::format("{} ({} layers, context of {} tokens). /help lists the commands.",
                       source_.checkpoint->description(), session_.args().n_layers, session_.max_seq_len()));
    }
    session_.warm_up();
    LineReader reader(terminal_ ? "> " : "", terminal_);
    for (;;) {
      const auto line = reader.next();
      if (line.kind == LineReader::Kind::interrupted) continue;
      if (line.kind == LineReader::Kind::end) break;
      if (line.text == "/exit") return;
      if (!line.text.empty() && !command(line.text)) answer(line.text);
    }
    if (terminal_) std::cout << std::endl;
  }

 private:
  // Notes are for people: with a pipe, standard output holds answers alone.
  void note(const std::string& text) const {
    if (terminal_) {
      std::cout << text << std::endl;
    } else {
      std::cerr << text << std::endl;
    }
  }

  bool command(const std::string& line) {
    if (line == "/clear") {
      conversation_.clear();
      context_ = 0;
    } else if (line == "/help") {
      note(kHelp);
    } else if (line == "/stats") {
      note(stats_.empty() ? "no answer yet" : stats_);
    } else {
      return false;
    }
    return true;
  }

  void answer(const std::string& question) {
    conversation_.ask(question);
    auto request = session_.request(turn_, prompts_.build(conversation_.messages()), flags_.answer.options, turn_);
    if (flags_.answer.options.max_new_tokens == 0) request.max_new_tokens = session_.max_seq_len();
    const auto prompt_tokens = static_cast<i64>(request.prompt.size());
    if (prompt_tokens >= session_.max_seq_len()) {
      conversation_.withdraw();
      std::cerr << fmt::format(
                       "fathom: error: Prompt length exceeds model maximum sequence length (max_seq_len={}): the "
                       "conversation has {} tokens and leaves no room for an answer; /clear begins a new one",
                       session_.max_seq_len(), prompt_tokens)
                << std::endl;
      return;
    }
    std::map<i64, Reply> replies;
    Reply& reply = replies.try_emplace(turn_, session_.tokenizer(), flags_.answer.options.stop).first->second;
    ++turn_;
    session_.engine().submit(std::move(request));
    session_.run(
        replies, [](i64, const std::string& text) { std::cout << text << std::flush; },
        terminal_ ? &InterruptFlag::take : std::function<bool()>());
    std::cout << std::endl;
    finish(reply);
  }

  void finish(const Reply& reply) {
    if (reply.finish() == "error") {
      conversation_.withdraw();
      std::cerr << "fathom: error: " << reply.error() << std::endl;
      return;
    }
    conversation_.answer(reply.text());
    if (terminal_ && reply.finish() == "length") note("[the answer was cut: it reached its longest length]");
    if (terminal_ && reply.finish() == "interrupted") note("[stopped]");
    const Usage& usage = reply.usage();
    context_ = usage.prompt_tokens + usage.completion_tokens;
    const double decoding = reply.seconds() - reply.seconds_to_first();
    stats_ = fmt::format(
        "{} tokens at {:.1f} tokens/s, first after {:.3f} s; prompt of {} tokens, {} from the cache; context {} of {}",
        usage.completion_tokens,
        usage.completion_tokens > 1 && decoding > 0 ? static_cast<double>(usage.completion_tokens - 1) / decoding : 0.0,
        reply.seconds_to_first(), usage.prompt_tokens, usage.cached_tokens, context_, session_.max_seq_len());
  }

  ChatFlags flags_;
  bool terminal_;
  ModelSource source_;
  Session session_;
  PromptBuilder prompts_;
  Conversation conversation_;
  i64 turn_ = 0, context_ = 0;
  std::string stats_;
};

}  // namespace

void add_chat(CLI::App& app) {
  CLI::App* command = app.add_subcommand("chat", "Chat with a model in the terminal; with a pipe, one message a line");
  const auto flags = std::make_shared<ChatFlags>();
  flags->answer.options.max_new_tokens = 0;
  command->add_option("model", flags->model, "Model directory (Hugging Face or converted); else the embedded model");
  command->add_option("--config", flags->run.config, "Configuration, where the directory has none");
  add_model_flags(*command, flags->run);
  add_answer_flags(*command, flags->answer);
  command->get_option("--max-new-tokens")->description("Longest answer; 0: until the context is full");
  command->callback([flags] {
    flags->run.session.max_batch_size = 1;  // there is one conversation
    Chat(*flags).run();
  });
}

}  // namespace fathom
