// Generation: the choices of one API request while the engine computes them. A dialect derives from it and writes them.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "http/server.h"
#include "server/service.h"
#include "session/reply.h"

namespace fathom {

// One choice of the answer.
struct Choice {
  Choice(i64 at, i64 id, const Tokenizer& tokenizer, const std::vector<std::string>& stop)
      : index(at), request(id), reply(tokenizer, stop) {}

  i64 index;
  i64 request;  // of the engine
  Reply reply;
};

// Made on a thread of preparation, afterwards used on its exchange's network thread alone. Lives as long as the engine
// works for it.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  Generation(Service& service, std::shared_ptr<http::Exchange> exchange)
      : service_(service), exchange_(std::move(exchange)) {}
  virtual ~Generation() = default;
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  // Submits `n` requests a prompt. Throws ApiError with status 429 when too many wait.
  void start(const std::vector<std::vector<TokenId>>& prompts, i64 n, const AnswerOptions& options);

 protected:
  // All is submitted and nothing has come yet.
  virtual void begin() {}
  // Text of a choice that can be shown now, perhaps empty, and the number of tokens it came with.
  virtual void fresh(Choice& choice, const std::string& text, i64 tokens) = 0;
  virtual void finished(Choice& choice) = 0;
  // All choices have finished.
  virtual void done() = 0;
  // The engine could not go on; nothing else follows.
  virtual void failed(const std::string& message) = 0;

  Service& service() { return service_; }
  http::Exchange& exchange() { return *exchange_; }
  const std::deque<Choice>& choices() const { return choices_; }
  // Of all choices; a prompt that several share counts once.
  Usage usage() const;

 private:
  void take(Choice& choice, const std::vector<Event>& events);
  void cancel();

  Service& service_;
  std::shared_ptr<http::Exchange> exchange_;
  std::deque<Choice> choices_;  // their addresses stay
  i64 n_ = 1;                   // choices of a prompt; they follow each other
  i64 unfinished_ = 0;
  bool over_ = false;
};

}  // namespace fathom
