// WorkQueue: a few threads that take pieces of work in order from a bounded queue.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace fathom {

class WorkQueue {
 public:
  WorkQueue(int threads, std::size_t capacity);
  // Drops what has not begun.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // False when the queue is full. Work must not throw.
  bool push(std::function<void()> work);
  std::size_t waiting() const;

 private:
  void run();

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  std::size_t capacity_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace fathom
