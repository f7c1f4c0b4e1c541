#include <algorithm>
#include <ctime>

#include "server/openai.h"
#include "server/openai_stream.h"

namespace fathom {
namespace {

constexpr std::size_t kMaxPrompts = 1024;

class CompletionGeneration final : public OpenAiGeneration {
 public:
  // `echoes`: the text of each prompt, put before its answers; empty where it is not wanted.
  CompletionGeneration(Service& service, std::shared_ptr<http::Exchange> exchange, OpenAiOptions options, Json head,
                       std::vector<std::string> echoes)
      : OpenAiGeneration(service, std::move(exchange), std::move(options), std::move(head)),
        echoes_(std::move(echoes)) {}

 private:
  void begin() override {
    OpenAiGeneration::begin();
    told_.resize(choices().size());
    if (!options().stream) return;
    for (const Choice& choice : choices())
      if (const std::string echo = echo_of(choice); !echo.empty()) send_text(choice, echo);
  }

  void fresh(Choice& choice, const std::string& text, i64) override {
    if (options().stream && !text.empty()) send_text(choice, text);
  }

  void finished(Choice& choice) override {
    if (options().stream) send(Json::array({describe(choice, "", choice.reply.finish())}));
  }

  Json whole(const Choice& choice) override {
    return describe(choice, echo_of(choice) + choice.reply.text(), choice.reply.finish());
  }

  void send_text(const Choice& choice, const std::string& text) {
    send(Json::array({describe(choice, text, nullptr)}));
  }

  Json describe(const Choice& choice, const std::string& text, const Json& finish) {
    return {{"index", choice.index}, {"text", text}, {"logprobs", logprobs(choice)}, {"finish_reason", finish}};
  }

  // Of the tokens that were not told yet, in the lists of this dialect.
  Json logprobs(const Choice& choice) {
    if (options().n_logprobs < 0) return nullptr;
    Told& told = told_[static_cast<std::size_t>(choice.index)];
    Json tokens = Json::array(), values = Json::array(), tops = Json::array(), offsets = Json::array();
    for (const Json& entry : openai_logprobs(choice.reply, told.entries)) {
      tokens.push_back(entry["token"]);
      values.push_back(entry["logprob"]);
      Json top = Json::object();
      for (const Json& one : entry["top_logprobs"])
        if (!top.contains(one["token"])) top[one["token"].get<std::string>()] = one["logprob"];
      tops.push_back(std::move(top));
      offsets.push_back(told.offset);
      told.offset += static_cast<i64>(entry["bytes"].size());
      ++told.entries;
    }
    return {{"tokens", tokens}, {"token_logprobs", values}, {"top_logprobs", tops}, {"text_offset", offsets}};
  }

  std::string echo_of(const Choice& choice) const {
    return echoes_.empty() ? std::string() : echoes_[static_cast<std::size_t>(choice.index / options().n)];
  }

  struct Told {
    std::size_t entries = 0;
    i64 offset = 0;  // in bytes of the answer's text
  };
  std::vector<std::string> echoes_;
  std::vector<Told> told_;
};

bool is_ids(const Json& value) {
  return value.is_array() && !value.empty() &&
         std::all_of(value.begin(), value.end(), [](const Json& one) { return one.is_number_integer(); });
}

std::vector<TokenId> ids_of(const Fields& fields, const Json& value, i64 vocabulary) {
  std::vector<TokenId> ids;
  for (const Json& one : value) {
    if (!one.is_number_integer() || one.get<i64>() < 0 || one.get<i64>() >= vocabulary)
      fields.refuse("prompt", fmt::format("token ids below {}", vocabulary), one);
    ids.push_back(one.get<TokenId>());
  }
  return ids;
}

std::vector<TokenId> prompt_of(const Fields& fields, const Json& value, const Service& service) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const bool bos = fields.boolean("add_special_tokens", true);
    auto ids = bos ? service.tokenizer().encode_with_bos(text) : service.tokenizer().encode(text);
    if (ids.empty()) fields.refuse("prompt", "a text with at least one token", value);
    return ids;
  }
  if (!is_ids(value)) fields.refuse("prompt", "a text, a list of token ids, or a list of either", value);
  return ids_of(fields, value, service.vocab_size());
}

// A text, ids, or a list of either.
std::vector<std::vector<TokenId>> read_prompts(const Fields& fields, const Service& service) {
  const Json& prompt = fields.required("prompt");
  std::vector<std::vector<TokenId>> prompts;
  if (prompt.is_string() || is_ids(prompt)) return {prompt_of(fields, prompt, service)};
  if (!prompt.is_array() || prompt.empty() || prompt.size() > kMaxPrompts)
    fields.refuse("prompt", fmt::format("a text, a list of token ids, or a list of up to {} of either", kMaxPrompts),
                  prompt);
  for (const Json& one : prompt) prompts.push_back(prompt_of(fields, one, service));
  return prompts;
}

// Fields that would change the answer and are not built.
void refuse_unsupported(const Fields& fields) {
  if (fields.has("suffix") && !fields.text("suffix", "").empty())
    fields.refuse("suffix", "empty: this model does not fill in", *fields.find("suffix"));
  if (fields.integer("best_of", 1, 1, 1024) > fields.integer("n", 1, 1, 1024))
    fields.refuse("best_of", "at most 'n'", *fields.find("best_of"));
  if (fields.boolean("echo", false) && fields.has("logprobs"))
    fields.refuse("echo", "false beside 'logprobs': those of a prompt are not supported", *fields.find("echo"));
}

}  // namespace

void openai_completions(Service& service, const std::shared_ptr<http::Exchange>& exchange) {
  constexpr i64 kMaxTokens = 16;  // where a request says nothing, as the API's reference has it
  const Json body = parse_body(exchange->request().body);
  const Fields fields(body);
  check_model(fields, service);
  refuse_unsupported(fields);
  OpenAiOptions options = read_openai_options(fields, service, kMaxTokens);
  options.answer.n_logprobs = options.n_logprobs = static_cast<int>(fields.integer("logprobs", -1, 0, 20));
  std::vector<std::vector<TokenId>> prompts = read_prompts(fields, service);
  std::vector<std::string> echoes;
  for (const auto& prompt : prompts) {
    AnswerOptions fitted = options.answer;
    fit_answer(fitted, static_cast<i64>(prompt.size()), service.max_seq_len());
    if (fields.boolean("echo", false)) echoes.push_back(service.tokenizer().decode(prompt));
  }
  const i64 n = options.n;
  const AnswerOptions answer = options.answer;
  Json head{{"id", new_id("cmpl-")},
            {"object", "text_completion"},
            {"created", static_cast<i64>(std::time(nullptr))},
            {"model", fields.text("model", service.name())}};
  std::make_shared<CompletionGeneration>(service, exchange, std::move(options), std::move(head), std::move(echoes))
      ->start(prompts, n, answer);
}

}  // namespace fathom
