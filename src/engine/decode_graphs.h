// DecodeGraphs: decode passes recorded by batch size and replayed, so that a step costs the host one call.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "ops/backend.h"

namespace fathom {

class DecodeGraphs {
 public:
  explicit DecodeGraphs(Backend& backend) : backend_(backend) {}

  // Contexts are recorded in steps of powers of two: a pass for `context` tokens is shaped for this many.
  static i64 rounded_context(i64 context);

  // Enqueues one pass of `batch` sequences whose longest context has at most `context` tokens (a rounded one). The
  // first time it is called, the second time recorded, from then on replayed; always called where the backend cannot
  // record. Of too many, the one unused for longest is forgotten. `pass` must enqueue the same operations on the same
  // addresses for the same (batch, context).
  void run(i64 batch, i64 context, const std::function<void()>& pass);

  // Forgets all recordings, which must not be replayed once the memory they use is gone.
  void clear() { recorded_.clear(); }

  // How many passes are recorded.
  i64 recordings() const;

  // Device operations of a recorded pass; 0 when there is none.
  i64 operations(i64 batch, i64 context) const;

 private:
  Backend& backend_;
  struct Recording {
    std::unique_ptr<Graph> graph;  // null: called once so far, or cannot be recorded
    i64 used = 0;                  // the last run of it
  };

  std::map<std::pair<i64, i64>, Recording> recorded_;
  i64 runs_ = 0;
  bool can_record_ = true;
};

}  // namespace fathom
