#include "server/text_api.h"

#include "server/chat_messages.h"

namespace fathom {
namespace {

Json nullable(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

}  // namespace

Json tokenize(const Service& service, const Json& body) {
  const Fields fields(body);
  std::vector<TokenId> ids;
  if (fields.has("messages")) {
    ids = service.prompts().prepare(chat_variables(fields)).ids;
  } else {
    const char* name = fields.has("content") ? "content" : "prompt";  // the first as llama.cpp calls it
    fields.required(name);
    const std::string text = fields.text(name, "");
    ids = fields.boolean("add_special_tokens", name[0] == 'p') ? service.tokenizer().encode_with_bos(text)
                                                               : service.tokenizer().encode(text);
  }
  Json answer{{"count", ids.size()}, {"max_model_len", service.max_seq_len()}, {"tokens", ids}};
  if (fields.boolean("return_token_strs", false)) {
    answer["token_strs"] = Json::array();
    for (const TokenId id : ids) answer["token_strs"].push_back(service.tokenizer().token_text(id));
  }
  return answer;
}

Json detokenize(const Service& service, const Json& body) {
  const Fields fields(body);
  fields.required("tokens");
  std::vector<TokenId> ids;
  for (const Json& one : *fields.array("tokens")) {
    if (!one.is_number_integer() || one.get<i64>() < 0 || one.get<i64>() >= service.vocab_size())
      fields.refuse("tokens", fmt::format("a list of token ids below {}", service.vocab_size()), one);
    ids.push_back(one.get<TokenId>());
  }
  const std::string text = service.tokenizer().decode(ids, false);
  return {{"prompt", text}, {"content", text}};
}

Json apply_template(const Service& service, const Json& body) {
  return {{"prompt", service.prompts().render(chat_variables(Fields(body)))}};
}

Json tokenizer_info(const Service& service) {
  const Tokenizer& tokenizer = service.tokenizer();
  return {{"bos_token", nullable(tokenizer.bos_token())},
          {"eos_token", nullable(tokenizer.eos_token())},
          {"pad_token", nullable(tokenizer.pad_token())},
          {"unk_token", nullable(tokenizer.unk_token())},
          {"vocab_size", service.vocab_size()},
          {"model_max_length", service.max_seq_len()},
          {"chat_template", service.prompts().template_source()}};
}

}  // namespace fathom
