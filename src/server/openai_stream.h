// What the streams of OpenAI's dialect have in common: chunks as server-sent events.
#pragma once

#include "server/generation.h"
#include "server/openai_options.h"

namespace fathom {

// A generation that answers with one JSON object, or with chunks of it.
class OpenAiGeneration : public Generation {
 public:
  OpenAiGeneration(Service& service, std::shared_ptr<http::Exchange> exchange, OpenAiOptions options, Json head)
      : Generation(service, std::move(exchange)), options_(std::move(options)), head_(std::move(head)) {}

 protected:
  const OpenAiOptions& options() const { return options_; }
  // id, object, created and model, to which an answer adds choices and usage.
  const Json& head() const { return head_; }

  void begin() override;
  void done() override;
  void failed(const std::string& message) override;

  // Sends a chunk of these choices.
  void send(const Json& choices);
  // The whole choice, of an answer that is not streamed.
  virtual Json whole(const Choice& choice) = 0;
  virtual i64 reasoning_tokens() const { return 0; }

 private:
  void send_event(const Json& event);

  OpenAiOptions options_;
  Json head_;
};

}  // namespace fathom
