#include "base/stage.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/threads.h"

namespace fathom {

struct Stage::State {
  std::function<void(i64)> work;
  std::mutex mutex;
  std::condition_variable changed;
  i64 ready = 0, done = 0;  // items
  bool stop = false;
  std::exception_ptr error;
  std::thread thread;

  void loop() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return stop || ready > done; });
      if (stop) return;
      lock.unlock();
      try {
        work(done);
      } catch (...) {
        lock.lock();
        error = std::current_exception();
        changed.notify_all();
        return;
      }
      lock.lock();
      ++done;
      changed.notify_all();
    }
  }
};

Stage::Stage(std::function<void(i64)> work) : state_(std::make_unique<State>()) {
  state_->work = std::move(work);
  state_->thread = start_thread([state = state_.get()] { state->loop(); });
}

Stage::~Stage() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->changed.notify_all();
  state_->thread.join();
}

void Stage::give() {
  const std::lock_guard lock(state_->mutex);
  ++state_->ready;
  state_->changed.notify_all();
}

void Stage::wait_for(i64 item) {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->error || state_->done > item; });
  if (state_->error) std::rethrow_exception(state_->error);
}

}  // namespace fathom
