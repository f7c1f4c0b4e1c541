// A thread that does one thing to item 0, 1, 2, ... as they become ready: a stage of a pipeline.
#pragma once

#include <functional>
#include <memory>

#include "base/check.h"

namespace fathom {

class Stage {
 public:
  // Throws Error when the thread cannot be started.
  explicit Stage(std::function<void(i64 item)> work);
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  // Waits for the item in work; those behind it are left.
  ~Stage();

  // The next item is ready.
  void give();
  // Returns when item `item` is done (at once when it is negative); rethrows what the work threw.
  void wait_for(i64 item);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fathom
