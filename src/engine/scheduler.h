// Scheduler: waiting and running sequences -> the next StepPlan; and takes back the drawn tokens. Pure host logic.
//
// First come, first served: waiting requests start in order, and when cache blocks run out the latest starter gives its
// own back and waits at the front again, to be computed anew. So the oldest always moves on and nobody starves.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/block_pool.h"
#include "engine/limits.h"
#include "engine/plan.h"
#include "engine/request.h"

namespace fathom {

struct SchedulerOptions {
  Limits limits;             // all of them set; max_tokens has room for one token of each sequence
  i64 chunk = 0;             // prompt tokens of one sequence in a pass; 0: as many as a pass holds
  i64 vocab_size = 0;        // prompt ids must be below
  bool prefix_reuse = true;  // look for known beginnings of prompts
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options);
  ~Scheduler();

  // Why a request can never be served; nothing when it can.
  std::optional<std::string> refusal(const Request& request) const;
  // Queues a request that has no refusal.
  void add(Request request);
  // Forgets a request, also between plan() and commit(); false when it is not here (any more).
  bool cancel(i64 id);

  // The next pass; without tokens when there is nothing to do. To be followed by commit() or fail().
  StepPlan plan();
  // Takes what the last plan gave.
  void commit(const StepResult& result, std::vector<Event>& events);
  // The last plan could not be carried out: the sequences that had tokens in it end with this error. Those that wait,
  // or had none, go on; what was published before stays.
  void fail(const std::string& reason, std::vector<Event>& events);
  // Nothing can run any more: every request ends with this error.
  void fail_all(const std::string& reason, std::vector<Event>& events);

  // Whether a request of this id is unfinished here.
  bool has(i64 id) const;
  bool idle() const { return waiting_.empty() && running_.empty(); }
  i64 waiting() const { return static_cast<i64>(waiting_.size()); }
  i64 running() const { return static_cast<i64>(running_.size()); }
  i64 preemptions() const { return preemptions_; }
  const BlockPool& pool() const { return pool_; }
  const SchedulerOptions& options() const { return options_; }

 private:
  struct Sequence;
  using Owner = std::unique_ptr<Sequence>;

  void share_out_tokens();
  bool secure_blocks();
  bool grow(Sequence& sequence, i64 tokens);
  void admit();
  void preempt_last();
  void release_blocks(Sequence& sequence);
  void publish_blocks(Sequence& sequence);
  void unpublish_blocks(Sequence& sequence);
  void remove_ended();
  void end_with(Sequence& sequence, const std::string& reason, std::vector<Event>& events);
  i64 steps_together() const;
  bool accept(Sequence& sequence, const Drawn& drawn, std::vector<Event>& events);
  bool accept_all(Sequence& sequence, std::span<const Drawn> rows, i64 stride, std::vector<Event>& events);

  SchedulerOptions options_;
  const Limits& limits_;
  BlockPool pool_;
  std::deque<Owner> waiting_;
  std::vector<Owner> running_;  // in the order of arrival
  i64 tokens_left_ = 0;         // of the pass being planned
  i64 steps_ = 1, rows_ = 0;    // of the plan that is being carried out
  i64 preemptions_ = 0;
};

}  // namespace fathom
