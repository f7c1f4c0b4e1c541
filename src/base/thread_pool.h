// A fixed pool of threads for data-parallel loops: an object that is passed down, not a singleton.
#pragma once

#include <functional>
#include <memory>

#include "base/check.h"

namespace fathom {

class ThreadPool {
 public:
  // `threads` counts the calling thread; 0 takes one a physical core. Has fewer where the system gives no more.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();

  int size() const;

  // Calls body(begin, end, worker) on pieces of [0, count) of at most `grain` items and returns when all are done.
  // worker is in [0, size()). Pieces are handed out in order. The first exception is rethrown here. Not reentrant.
  void parallel_for(i64 count, i64 grain, const std::function<void(i64 begin, i64 end, int worker)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Physical cores available to this process: of its affinity mask, one a core, at most what its control groups allow.
int physical_cores();

}  // namespace fathom
