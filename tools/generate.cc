#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "model/source.h"
#include "session/text_of_model.h"
#include "text/chat/output_parser.h"
#include "tools/command.h"
#include "tools/commands.h"
#include "tools/conversation_loop.h"
#include "tools/model_flags.h"
#include "tools/output.h"
#include "tools/prompt_file.h"

namespace fathom {
namespace {

struct GenerateFlags {
  std::string ckpt_path, input_file;
  bool interactive = false, strict_reference = false;
  ModelFlags run;
  AnswerFlags answer;
};

std::string dump(const nlohmann::ordered_json& json) {  // bytes that are no text become U+FFFD
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

// "Name(field=value, ...)", as Python prints a dataclass.
std::string describe(const std::string& name, const nlohmann::ordered_json& fields) {
  std::string text = name + "(";
  for (const auto& [key, value] : fields.items()) {
    if (text.back() != '(') text += ", ";
    text += key + "=";
    if (value.is_string() && value.get<std::string>().empty()) {
      text += "None";
    } else {
      text += value.is_string() ? "'" + value.get<std::string>() + "'" : dump(value);
    }
  }
  return text + ")";
}

// Reasoning and tool calls by themselves, in the shape of the OpenAI interface, where the answer has any.
void add_parts(nlohmann::ordered_json& report, const ParsedOutput& parts) {
  if (parts.reasoning.empty() && parts.tool_calls.empty()) return;
  if (!parts.reasoning.empty()) report["reasoning_content"] = parts.reasoning;
  report["content"] = parts.content;
  for (const ToolCall& call : parts.tool_calls) {
    nlohmann::ordered_json row{{"type", "function"},
                               {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
    if (!call.id.empty()) row["id"] = call.id;
    report["tool_calls"].push_back(std::move(row));
  }
}

// The double that prints as the float does: 0.2, not 0.20000000298.
double shortest(float value) { return std::stod(fmt::format("{}", value)); }

void print_arguments(const ModelArgs& args, const GenerateFlags& flags) {
  const SamplingParams& sampling = flags.answer.options.sampling;
  print_note("{}\n{}\n", describe("ModelArgs", to_json(args)),
             describe("Options", {{"ckpt_path", flags.ckpt_path},
                                  {"config", flags.run.config},
                                  {"input_file", flags.input_file},
                                  {"interactive", flags.interactive},
                                  {"max_new_tokens", flags.answer.options.max_new_tokens},
                                  {"temperature", shortest(sampling.temperature)},
                                  {"seed", sampling.seed},
                                  {"top_k", sampling.top_k},
                                  {"top_p", shortest(sampling.top_p)},
                                  {"min_p", shortest(sampling.min_p)},
                                  {"repetition_penalty", shortest(sampling.repetition_penalty)},
                                  {"stop", flags.answer.options.stop},
                                  {"system", flags.answer.system},
                                  {"chat_template", flags.answer.chat_template},
                                  {"compute", flags.run.compute},
                                  {"gemm", flags.run.gemm},
                                  {"attn", flags.run.attn},
                                  {"device", flags.run.device},
                                  {"threads", flags.run.threads}}));
}

class Generate {
 public:
  explicit Generate(const GenerateFlags& flags)
      : flags_(flags),
        lines_(flags.interactive ? std::vector<std::string>() : read_prompt_file(flags.input_file)),
        source_(open_named_model(flags.ckpt_path, flags.run.config)),
        session_(load_session(source_, flags.run)),
        prompts_(session_.tokenizer(), load_chat_template(source_, flags.answer.chat_template),
                 flags.answer.allow_special_in_content) {}

  void run() {
    print_arguments(session_.args(), flags_);
    if (flags_.interactive) {
      session_.warm_up();
      interactive();
    } else {
      batch();
    }
  }

 private:
  void batch() {
    if (flags_.strict_reference)
      CHECK(static_cast<i64>(lines_.size()) <= session_.args().max_batch_size,
            "Number of prompts exceeds maximum batch size ({}): {} has {}; split it, raise --max-batch-size, or leave "
            "out --strict-reference to run them in turns",
            session_.args().max_batch_size, flags_.input_file, lines_.size());
    std::vector<std::vector<TokenId>> ids;
    std::vector<OutputFormat> formats;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      Conversation conversation(flags_.answer.system);
      conversation.ask(lines_[i]);
      formats.push_back(prompts_.output_format(conversation.messages()));
      ids.push_back(prompts_.build(conversation.messages()));
      check_room(i + 1, static_cast<i64>(ids.back().size()));
    }
    session_.warm_up();
    std::map<i64, Reply> replies;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto id = static_cast<i64>(i);
      replies.try_emplace(id, session_.tokenizer(), flags_.answer.options.stop);
      session_.engine().submit(session_.request(id, ids[i], flags_.answer.options, id));
    }
    session_.run(replies);
    for (const auto& [id, reply] : replies) {
      const auto line = static_cast<std::size_t>(id);
      print(lines_[line], reply, formats[line]);
    }
    for (const auto& [id, reply] : replies)
      CHECK(reply.finish() != "error", "line {} of {}: {}", id + 1, flags_.input_file, reply.error());
  }

  // A prompt that fills the context gets an empty answer, as the reference gives.
  void check_room(std::size_t line, i64 tokens) const {
    CHECK(tokens <= session_.max_seq_len(),
          "Prompt length exceeds model maximum sequence length (max_seq_len={}): line {} of {} has {} tokens; shorten "
          "it or raise --max-seq-len",
          session_.max_seq_len(), line, flags_.input_file, tokens);
    if (tokens == session_.max_seq_len())
      print_warning(fmt::format("line {} of {} has {} tokens and leaves no room for an answer (max_seq_len={})", line,
                                flags_.input_file, tokens, session_.max_seq_len()));
  }

  void print(const std::string& prompt, const Reply& reply, const OutputFormat& format) {
    if (flags_.answer.json) return write_output(dump(report(prompt, reply, format)) + "\n");
    print_output("Prompt: {}\nCompletion: {}\n{}\n", prompt, reply.text(), logprobs_line(reply));
  }

  nlohmann::ordered_json report(const std::string& prompt, const Reply& reply, const OutputFormat& format) const {
    nlohmann::ordered_json all{{"prompt", prompt}};
    all.update(reply.to_json());
    add_parts(all, parse_output(format, reply.text()));
    if (flags_.answer.options.n_logprobs >= 0) all["logprobs"] = reply.logprobs_to_json();
    return all;
  }

  std::string logprobs_line(const Reply& reply) const {
    return flags_.answer.options.n_logprobs < 0 ? "" : fmt::format("Logprobs: {}\n", dump(reply.logprobs_to_json()));
  }

  void interactive() {
    const bool terminal = ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0;
    LineReader reader(">>> ", terminal);
    const auto read = [&] {
      const InterruptFlag interrupt;  // Ctrl-C at the prompt ends the conversation, and leaves the terminal as it was
      return reader.next();
    };
    const auto hear = [&](i64, const std::string& text) {
      if (!flags_.answer.json) write_output(text);
    };
    const auto finish = [&](const std::vector<Message>& messages, const Reply& reply) {
      if (reply.finish() == "error") return;
      if (flags_.answer.json) {
        write_output(dump(report(messages.back().content, reply, prompts_.output_format(messages))) + "\n");
      } else {
        write_output("\n" + logprobs_line(reply));
      }
    };
    const ConversationEnd end =
        run_conversation(session_, prompts_, flags_.answer.options, Conversation(flags_.answer.system),
                         {.read = read, .show = hear, .finish = finish});
    if (!end.left) write_output("\n");
    if (!terminal && end.failed) throw ToldError();
  }

  GenerateFlags flags_;
  std::vector<std::string> lines_;  // prompts of the input file
  ModelSource source_;
  Session session_;
  PromptBuilder prompts_;
};

}  // namespace

void add_generate(CLI::App& app) {
  Command command(app, "generate", "Answer the lines of a file, or a conversation (--interactive)");
  const auto flags = std::make_shared<GenerateFlags>();
  command.option("--ckpt-path", flags->ckpt_path, "Model directory: weights and tokenizer").required();
  command.option("--config", flags->run.config, "Configuration; else what the model directory says");
  const Flag file = command.option("--input-file", flags->input_file, "File with one prompt a line");
  Flag interactive =
      command.flag("--interactive", flags->interactive,
                   "Read messages from standard input; /clear, /exit; \"\"\" begins and ends one of several lines");
  interactive.excludes(file);
  add_answer_flags(command, flags->answer);
  add_report_flags(command, flags->answer);
  add_model_flags(command, flags->run);
  command
      .option("--max-batch-size", flags->run.session.max_batch_size, "Sequences run at once; else the configuration's")
      .range(1, i64{1} << 16);
  command
      .flag("--strict-reference", flags->strict_reference,
            "Refuse more prompts than max_batch_size, as the reference does, instead of running them in turns")
      .excludes(interactive);
  command.run([flags] {
    if (flags->input_file.empty() && !flags->interactive)
      throw UsageError("Either input-file or interactive mode must be specified");
    Generate(*flags).run();
  });
}

}  // namespace fathom
