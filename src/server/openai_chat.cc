#include <ctime>
#include <map>

#include "server/chat_messages.h"
#include "server/openai.h"
#include "server/openai_stream.h"
#include "text/jinja/runtime.h"

namespace fathom {
namespace {

// What a choice has said so far, beyond its text.
struct Said {
  explicit Said(const OutputFormat& format) : parser(format) {}

  OutputParser parser;
  ParsedOutput all;
  i64 calls = 0;             // tool calls that were sent
  i64 reasoning_tokens = 0;  // that came while no content had begun
  std::size_t logprobs = 0;  // entries that were sent
};

class ChatGeneration final : public OpenAiGeneration {
 public:
  ChatGeneration(Service& service, std::shared_ptr<http::Exchange> exchange, OpenAiOptions options, Json head,
                 const OutputFormat& format)
      : OpenAiGeneration(service, std::move(exchange), std::move(options), std::move(head)), format_(format) {}

 private:
  void begin() override {
    OpenAiGeneration::begin();
    for (const Choice& choice : choices()) {
      said_.emplace_back(format_);
      if (options().stream) send_delta(choice, {{"role", "assistant"}, {"content", nullptr}});
    }
  }

  void fresh(Choice& choice, const std::string& text, i64 tokens) override {
    Said& said = said_of(choice);
    if (format_.reasoning && said.all.content.empty() && said.all.tool_calls.empty()) said.reasoning_tokens += tokens;
    take(choice, said.parser.push(text));
  }

  void finished(Choice& choice) override {
    take(choice, said_of(choice).parser.finish());
    if (!options().stream) return;
    Json logprobs = fresh_logprobs(choice);
    if (!logprobs.is_null() && !logprobs["content"].empty()) send_delta(choice, Json::object(), std::move(logprobs));
    send(Json::array({{{"index", choice.index},
                       {"delta", Json::object()},
                       {"logprobs", nullptr},
                       {"finish_reason", finish_reason(choice)}}}));
  }

  void take(const Choice& choice, const std::vector<OutputDelta>& deltas) {
    Said& said = said_of(choice);
    for (const OutputDelta& delta : deltas) {
      said.all.append(delta);
      if (!options().stream) continue;
      switch (delta.kind) {
        case OutputDelta::Kind::reasoning:
          send_delta(choice, {{"reasoning_content", delta.text}}, fresh_logprobs(choice));
          break;
        case OutputDelta::Kind::content:
          send_delta(choice, {{"content", delta.text}}, fresh_logprobs(choice));
          break;
        case OutputDelta::Kind::tool_call: {
          Json call = describe(delta.call, choice.index, said.calls);
          call["index"] = said.calls++;
          send_delta(choice, {{"tool_calls", Json::array({call})}}, fresh_logprobs(choice));
          break;
        }
      }
    }
  }

  void send_delta(const Choice& choice, Json delta, Json logprobs = nullptr) {
    send(Json::array({{{"index", choice.index},
                       {"delta", std::move(delta)},
                       {"logprobs", std::move(logprobs)},
                       {"finish_reason", nullptr}}}));
  }

  // The model's own id, else one that is unique in the conversation.
  Json describe(const ToolCall& call, i64 choice, i64 number) {
    std::string& id = call_ids_[{choice, number}];
    if (id.empty()) id = call.id.empty() ? new_id("call_") : call.id;
    return {{"id", id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
  }

  std::string finish_reason(const Choice& choice) const {
    return said_of(choice).all.tool_calls.empty() || choice.reply.finish() != "stop" ? choice.reply.finish()
                                                                                     : "tool_calls";
  }

  // Of the tokens that no chunk has told yet.
  Json fresh_logprobs(const Choice& choice) {
    if (options().n_logprobs < 0) return nullptr;
    Said& said = said_of(choice);
    Json entries = openai_logprobs(choice.reply, said.logprobs);
    said.logprobs += entries.size();
    return {{"content", std::move(entries)}};
  }

  Json whole(const Choice& choice) override {
    Said& said = said_of(choice);
    Json message{{"role", "assistant"}, {"content", said.all.content}, {"refusal", nullptr}};
    if (format_.reasoning) {
      message["reasoning_content"] = nullptr;
      if (!said.all.reasoning.empty()) message["reasoning_content"] = said.all.reasoning;
    }
    if (!said.all.tool_calls.empty()) {
      if (said.all.content.empty()) message["content"] = nullptr;
      message["tool_calls"] = Json::array();
      for (const ToolCall& call : said.all.tool_calls)
        message["tool_calls"].push_back(describe(call, choice.index, said.calls++));
    }
    return {{"index", choice.index},
            {"message", message},
            {"logprobs", fresh_logprobs(choice)},
            {"finish_reason", finish_reason(choice)}};
  }

  i64 reasoning_tokens() const override {
    i64 all = 0;
    for (const Said& said : said_) all += said.reasoning_tokens;
    return all;
  }

  Said& said_of(const Choice& choice) { return said_[static_cast<std::size_t>(choice.index)]; }
  const Said& said_of(const Choice& choice) const { return said_[static_cast<std::size_t>(choice.index)]; }

  OutputFormat format_;
  std::deque<Said> said_;  // of each choice
  std::map<std::pair<i64, i64>, std::string> call_ids_;
};

i64 read_logprobs(const Fields& fields) {
  const bool wanted = fields.boolean("logprobs", false);
  const i64 n = fields.integer("top_logprobs", 0, 0, 20);
  if (n > 0 && !wanted)
    fields.refuse("top_logprobs", "left out where 'logprobs' is not true", *fields.find("top_logprobs"));
  return wanted ? n : -1;
}

// response_format needs a grammar, which is not built.
void refuse_formats(const Fields& fields) {
  const Json* format = fields.object("response_format");
  if (format == nullptr) return;
  const Fields inner(*format, "response_format.");
  inner.required("type");
  if (inner.text("type", "") != "text")
    inner.refuse("type", "\"text\": forced formats are not supported", *inner.find("type"));
}

}  // namespace

void openai_chat(Service& service, const std::shared_ptr<http::Exchange>& exchange) {
  const Json body = parse_body(exchange->request().body);
  const Fields fields(body);
  check_model(fields, service);
  refuse_formats(fields);
  OpenAiOptions options = read_openai_options(fields, service, 0);
  options.answer.n_logprobs = options.n_logprobs = static_cast<int>(read_logprobs(fields));
  Prompt prompt;
  try {
    prompt = service.prompts().prepare(chat_variables(fields));
  } catch (const jinja::TemplateError& error) {
    throw ApiError(400, fmt::format("the model's chat template cannot take these messages: {}", error.what()),
                   "messages");
  }
  fit_answer(options.answer, static_cast<i64>(prompt.ids.size()), service.max_seq_len());
  const i64 n = options.n;
  const AnswerOptions answer = options.answer;
  Json head{{"id", new_id("chatcmpl-")},
            {"object", options.stream ? "chat.completion.chunk" : "chat.completion"},
            {"created", static_cast<i64>(std::time(nullptr))},
            {"model", fields.text("model", service.name())}};
  std::make_shared<ChatGeneration>(service, exchange, std::move(options), std::move(head), prompt.format)
      ->start({std::move(prompt.ids)}, n, answer);
}

}  // namespace fathom
