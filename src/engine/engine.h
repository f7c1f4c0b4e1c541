// Engine: many requests, one model. Step form, for one thread: submit, then step() until idle.
#pragma once

#include <string>
#include <vector>

#include "engine/plan.h"
#include "engine/request.h"
#include "engine/scheduler.h"

namespace fathom {

class Engine {
 public:
  // The runner outlives the engine.
  Engine(StepRunner& runner, const SchedulerOptions& options) : runner_(runner), scheduler_(options) {}

  // Queues a request. One that cannot be served is answered by an error event of the next step; its id must be free.
  void submit(Request request);
  // Runs one pass, or several decode passes (Limits::max_steps), and returns what came of it: the events of a
  // request in order, those of different requests in no particular one. Whatever a pass throws ends the requests that
  // had tokens in it, by error events; after a DeviceLost, all requests, and those that come later.
  std::vector<Event> step();
  // Forgets a request at once: no more events of it. What it computed and is known to be finite stays findable. False
  // when unknown or finished.
  bool cancel(i64 id);
  // True when nothing waits, runs or is to be reported.
  bool idle() const { return pending_.empty() && scheduler_.idle(); }

  const Scheduler& scheduler() const { return scheduler_; }

 private:
  StepRunner& runner_;
  Scheduler scheduler_;
  std::vector<Event> pending_;  // for the next step
  std::string lost_;            // why nothing can run any more; empty: it can
};

}  // namespace fathom
