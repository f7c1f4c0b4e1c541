#include "base/work_queue.h"

#include <utility>

#include "base/threads.h"

namespace fathom {

WorkQueue::WorkQueue(int threads, std::size_t capacity) : capacity_(capacity) {
  threads_ = start_threads(threads, [this] { run(); });
}

WorkQueue::~WorkQueue() {
  {
    const std::unique_lock lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkQueue::push(std::function<void()> work) {
  {
    const std::unique_lock lock(mutex_);
    if (queue_.size() >= capacity_) return false;
    queue_.push_back(std::move(work));
  }
  wake_.notify_one();
  return true;
}

std::size_t WorkQueue::waiting() const {
  const std::unique_lock lock(mutex_);
  return queue_.size();
}

void WorkQueue::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (ending_) return;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // what it holds is let go outside of the lock
    lock.lock();
  }
}

}  // namespace fathom
