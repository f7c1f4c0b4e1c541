#include "server/generation.h"

#include "server/api_error.h"

namespace fathom {

void Generation::start(const std::vector<std::vector<TokenId>>& prompts, i64 n, const AnswerOptions& options) {
  n_ = n;
  unfinished_ = static_cast<i64>(prompts.size()) * n;
  const i64 first = service_.engine().take_ids(unfinished_);
  std::vector<Request> requests;
  for (i64 index = 0; index < unfinished_; ++index) {
    choices_.emplace_back(index, first + index, service_.tokenizer(), options.stop);
    requests.push_back(
        service_.session().request(first + index, prompts[static_cast<std::size_t>(index / n)], options, index % n));
  }
  exchange_->post([self = shared_from_this()] { self->begin(); });
  const auto listener = [self = shared_from_this(), first](std::vector<Event> events) {
    Choice& choice = self->choices_[static_cast<std::size_t>(events.front().request - first)];
    self->exchange_->post([self, &choice, events = std::move(events)] { self->take(choice, events); });
  };
  if (!service_.engine().submit(std::move(requests), listener))
    throw ApiError(429, "too many requests wait; try again later");
  exchange_->on_leave([self = shared_from_this()] { self->cancel(); });
}

Usage Generation::usage() const {
  Usage all;
  for (const Choice& choice : choices_) {
    const Usage& one = choice.reply.usage();
    all.completion_tokens += one.completion_tokens;
    if (choice.index % n_ != 0) continue;
    all.prompt_tokens += one.prompt_tokens;
    all.cached_tokens += one.cached_tokens;
  }
  return all;
}

void Generation::cancel() {
  over_ = true;
  for (const Choice& choice : choices_)
    if (!choice.reply.done()) service_.engine().cancel(choice.request);
}

void Generation::take(Choice& choice, const std::vector<Event>& events) {
  if (over_ || choice.reply.done()) return;  // tokens drawn together with the one that completed a stop text
  std::string text;
  i64 tokens = 0;
  for (const Event& event : events) {
    text += choice.reply.take(event);
    tokens += event.token >= 0 ? 1 : 0;
    if (!choice.reply.done()) continue;
    if (event.finish == FinishReason::none) service_.engine().cancel(choice.request);  // a stop text
    break;
  }
  if (choice.reply.finish() == "error") {
    cancel();
    return failed(choice.reply.error());
  }
  fresh(choice, text, tokens);
  if (!choice.reply.done()) return;
  finished(choice);
  if (--unfinished_ == 0) {
    over_ = true;
    done();
  }
}

}  // namespace fathom
