#include "engine/engine_thread.h"

#include <utility>

#include "base/threads.h"

namespace fathom {

EngineThread::EngineThread(Engine& engine, i64 max_waiting) : engine_(engine), max_waiting_(max_waiting) {
  stats_.blocks = stats_.free_blocks = engine.scheduler().pool().blocks();
  thread_ = start_thread([this] { run(); });
}

EngineThread::~EngineThread() {
  {
    const std::unique_lock lock(mutex_);
    ending_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

i64 EngineThread::take_ids(i64 n) {
  const std::unique_lock lock(mutex_);
  return std::exchange(next_id_, next_id_ + n);
}

bool EngineThread::submit(std::vector<Request> requests, const Listener& listener) {
  {
    const std::unique_lock lock(mutex_);
    if (stats_.waiting + static_cast<i64>(arrivals_.size() + requests.size()) > max_waiting_) return false;
    for (Request& request : requests) arrivals_.push_back({std::move(request), listener});
  }
  wake_.notify_one();
  return true;
}

void EngineThread::cancel(i64 id) {
  {
    const std::unique_lock lock(mutex_);
    leavers_.push_back(id);
  }
  wake_.notify_one();
}

EngineStats EngineThread::stats() const {
  const std::unique_lock lock(mutex_);
  return stats_;
}

void EngineThread::run() {
  while (take_commands()) deliver(engine_.step());
  listeners_.clear();
}

// Waits until there is something to do; false at the end.
bool EngineThread::take_commands() {
  std::vector<Arrival> arrivals;
  std::vector<i64> leavers;
  {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return ending_ || !arrivals_.empty() || !leavers_.empty() || !engine_.idle(); });
    if (ending_) return false;
    arrivals = std::exchange(arrivals_, {});
    leavers = std::exchange(leavers_, {});
    stats_.waiting += static_cast<i64>(arrivals.size());
  }
  for (Arrival& one : arrivals) {
    listeners_.emplace(one.request.id, std::move(one.listener));
    engine_.submit(std::move(one.request));
  }
  for (const i64 id : leavers) {
    if (!engine_.cancel(id)) continue;
    listeners_.erase(id);
    const std::unique_lock lock(mutex_);
    ++stats_.cancelled;
  }
  return true;
}

void EngineThread::deliver(std::vector<Event> events) {
  std::map<i64, std::vector<Event>> by_request;
  {
    const Scheduler& scheduler = engine_.scheduler();
    const std::unique_lock lock(mutex_);
    for (const Event& event : events) count(event);
    ++stats_.steps;
    stats_.waiting = scheduler.waiting();
    stats_.running = scheduler.running();
    stats_.preemptions = scheduler.preemptions();
    stats_.free_blocks = scheduler.pool().available();
  }
  for (Event& event : events) by_request[event.request].push_back(std::move(event));
  for (auto& [id, heard] : by_request) {
    const auto listener = listeners_.find(id);
    if (listener == listeners_.end()) continue;
    const bool last = heard.back().finish != FinishReason::none;
    listener->second(std::move(heard));
    if (last) listeners_.erase(listener);
  }
}

void EngineThread::count(const Event& event) {
  stats_.generated_tokens += event.token >= 0 ? 1 : 0;
  if (event.finish == FinishReason::none) return;
  ++(event.finish == FinishReason::error ? stats_.failed : stats_.finished);
  stats_.prompt_tokens += event.usage.prompt_tokens;
  stats_.cached_tokens += event.usage.cached_tokens;
}

}  // namespace fathom
