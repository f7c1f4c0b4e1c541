#include "session/reply.h"

#include <nlohmann/json.hpp>

namespace fathom {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::error:
      return "error";
    case FinishReason::none:
      break;
  }
  return "";
}

}  // namespace

Reply::Reply(const Tokenizer& tokenizer, const std::vector<std::string>& stop)
    : tokenizer_(tokenizer), decoder_(tokenizer, true, stop), start_(now()) {}

std::string Reply::take(const Event& event) {
  usage_ = event.usage;
  last_ = now();
  if (event.finish == FinishReason::error) error_ = event.error;
  std::string fresh;
  if (event.token >= 0) {
    if (ids_.empty()) first_ = last_;
    ids_.push_back(event.token);
    logprobs_.push_back({event.token, event.logprob});
    top_logprobs_.push_back(event.top_logprobs);
    if (event.finish != FinishReason::stop) fresh = decoder_.push(event.token);  // an end token has no text
  }
  text_ += fresh;
  if (decoder_.stopped()) {
    finish_ = "stop";
  } else if (event.finish != FinishReason::none) {
    fresh += end(name_of(event.finish));
  }
  return fresh;
}

std::string Reply::break_off() { return done() ? std::string() : end("interrupted"); }

std::string Reply::end(const std::string& reason) {
  finish_ = reason;
  std::string rest = decoder_.finish();
  text_ += rest;
  return rest;
}

nlohmann::ordered_json Reply::describe(const TokenLogprob& one) const {
  const std::string bytes = tokenizer_.token_bytes(one.token);
  auto numbers = nlohmann::ordered_json::array();
  for (const char byte : bytes) numbers.push_back(static_cast<unsigned char>(byte));
  return {{"id", one.token}, {"token", bytes}, {"bytes", numbers}, {"logprob", one.logprob}};
}

nlohmann::ordered_json Reply::logprobs_to_json() const {
  auto all = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    nlohmann::ordered_json entry = describe(logprobs_[i]);
    entry["top"] = nlohmann::ordered_json::array();
    for (const TokenLogprob& one : top_logprobs_[i]) entry["top"].push_back(describe(one));
    all.push_back(std::move(entry));
  }
  return all;
}

nlohmann::ordered_json Reply::to_json() const {
  return {{"completion", text_},
          {"finish_reason", finish_},
          {"ids", ids_},
          {"usage",
           {{"prompt_tokens", usage_.prompt_tokens},
            {"cached_tokens", usage_.cached_tokens},
            {"completion_tokens", usage_.completion_tokens}}}};
}

}  // namespace fathom
