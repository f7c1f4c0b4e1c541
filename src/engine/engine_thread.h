// EngineThread: runs an engine on a thread of its own. Requests come, and leave, from any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"

namespace fathom {

// What an engine has done and is doing.
struct EngineStats {
  i64 waiting = 0, running = 0, preemptions = 0;
  i64 blocks = 0, free_blocks = 0;  // of the cache
  i64 steps = 0, prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0, finished = 0, cancelled = 0, failed = 0;
};

class EngineThread {
 public:
  // Hears a request's events of one step, on the engine's thread: it must not block, throw or call back. The last one
  // that it hears has Event::finish set, unless the request is cancelled.
  using Listener = std::function<void(std::vector<Event>)>;

  // The engine outlives this and is used by nobody else meanwhile. No more than `max_waiting` requests wait.
  EngineThread(Engine& engine, i64 max_waiting);
  // Ends after the pass under way; what is unfinished is forgotten.
  ~EngineThread();
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  // The first of `n` request ids that nobody else gets.
  i64 take_ids(i64 n);
  // Queues requests with ids of take_ids(), which one listener hears; none of them, and false, when too many wait.
  bool submit(std::vector<Request> requests, const Listener& listener);
  // Takes effect before the next pass; an id that is not known (any more) is nothing.
  void cancel(i64 id);

  EngineStats stats() const;

 private:
  struct Arrival {
    Request request;
    Listener listener;
  };

  void run();
  bool take_commands();
  void deliver(std::vector<Event> events);
  void count(const Event& event);

  Engine& engine_;
  i64 max_waiting_;
  std::map<i64, Listener> listeners_;  // of the engine's thread alone
  mutable std::mutex mutex_;           // of all below
  std::condition_variable wake_;
  std::vector<Arrival> arrivals_;
  std::vector<i64> leavers_;
  i64 next_id_ = 1;
  bool ending_ = false;
  EngineStats stats_;
  std::thread thread_;
};

}  // namespace fathom
