#include "server/openai_stream.h"

#include "server/openai.h"

namespace fathom {

void OpenAiGeneration::begin() {
  if (options_.stream)
    exchange().begin_stream({.content_type = "text/event-stream; charset=utf-8",
                             .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}});
}

void OpenAiGeneration::send_event(const Json& event) { exchange().write("data: " + dump(event) + "\n\n"); }

void OpenAiGeneration::send(const Json& choices) {
  Json chunk = head_;
  chunk["choices"] = choices;
  if (options_.usage_always) {
    chunk["usage"] = openai_usage(usage(), reasoning_tokens());
  } else if (options_.usage_chunk) {
    chunk["usage"] = nullptr;
  }
  send_event(chunk);
}

void OpenAiGeneration::done() {
  Json answer = head_;
  answer["choices"] = Json::array();
  answer["usage"] = openai_usage(usage(), reasoning_tokens());
  if (!options_.stream) {
    for (const Choice& choice : choices()) answer["choices"].push_back(whole(choice));
    return exchange().respond(json_response(answer));
  }
  if (options_.usage_chunk) send_event(answer);
  exchange().write("data: [DONE]\n\n");
  exchange().end();
}

void OpenAiGeneration::failed(const std::string& message) {
  const http::Response error = openai_error(500, message);
  if (!options_.stream) return exchange().respond(error);
  exchange().write("data: " + error.body + "\n\n");
  exchange().end();
}

}  // namespace fathom
