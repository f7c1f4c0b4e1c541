#include "engine/engine.h"

#include <utility>

namespace fathom {

void Engine::submit(Request request) {
  Event event{.request = request.id, .usage = {.prompt_tokens = static_cast<i64>(request.prompt.size())}};
  if (auto reason = scheduler_.refusal(request)) {
    event.finish = FinishReason::error;
    event.error = std::move(*reason);
    pending_.push_back(std::move(event));
  } else if (scheduler_.has(request.id)) {
    fail("request {} is still unfinished; ids must be unique", request.id);
  } else if (request.max_new_tokens == 0 || event.usage.prompt_tokens == scheduler_.options().limits.max_seq_len) {
    event.finish = FinishReason::length;  // no room for an answer: an empty one, as the reference gives
    pending_.push_back(std::move(event));
  } else {
    scheduler_.add(std::move(request));
  }
}

std::vector<Event> Engine::step() {
  std::vector<Event> events = std::exchange(pending_, {});
  const StepPlan plan = scheduler_.plan();
  if (plan.tokens() == 0) return events;
  try {
    scheduler_.commit(runner_.run(plan), events);
  } catch (const Error& error) {  // a pass that fails ends its own requests, not the others
    scheduler_.fail(error.what(), events);
  }
  return events;
}

bool Engine::cancel(i64 id) {
  const auto dropped = std::erase_if(pending_, [id](const Event& event) { return event.request == id; });
  return scheduler_.cancel(id) || dropped > 0;
}

}  // namespace fathom
