#include "engine/engine.h"

#include <exception>
#include <new>
#include <utility>

namespace fathom {

void Engine::submit(Request request) {
  Event event{.request = request.id, .usage = {.prompt_tokens = static_cast<i64>(request.prompt.size())}};
  if (auto reason = scheduler_.refusal(request)) {
    event.finish = FinishReason::error;
    event.error = std::move(*reason);
    pending_.push_back(std::move(event));
  } else if (!lost_.empty()) {
    event.finish = FinishReason::error;
    event.error = lost_;
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
  try {
    const StepPlan plan = scheduler_.plan();
    if (plan.tokens() > 0) scheduler_.commit(runner_.run(plan), pending_);
  } catch (const DeviceLost& error) {
    lost_ = fmt::format("{}; nothing can run any more, start the program again", error.what());
    scheduler_.fail_all(lost_, pending_);
  } catch (const std::bad_alloc&) {
    scheduler_.fail("out of memory: a pass could not allocate", pending_);
  } catch (const std::exception& error) {
    scheduler_.fail(error.what(), pending_);
  } catch (...) {
    scheduler_.fail("a pass failed for an unknown reason", pending_);
  }
  return std::exchange(pending_, {});
}

bool Engine::cancel(i64 id) {
  const auto dropped = std::erase_if(pending_, [id](const Event& event) { return event.request == id; });
  return scheduler_.cancel(id) || dropped > 0;
}

}  // namespace fathom
