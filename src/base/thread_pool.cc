#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/machine.h"

namespace fathom {

struct ThreadPool::State {
  using Body = std::function<void(i64, i64, int)>;

  // How long a worker looks for the next loop before it sleeps: a pass makes many short loops in a row, and waking a
  // sleeping thread costs tens of microseconds.
  static constexpr int kSpins = 2000;

  std::mutex mutex;
  std::condition_variable wake, done;
  std::vector<std::thread> threads;
  const Body* body = nullptr;
  i64 count = 0, grain = 1;
  std::atomic<i64> next{0};
  std::atomic<std::uint64_t> generation{0};
  std::atomic<int> running{0};
  std::atomic<bool> stop{false};
  std::exception_ptr error;

  ~State() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    wake.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  void work(int worker) {
    try {
      for (i64 begin; (begin = next.fetch_add(grain)) < count;) (*body)(begin, std::min(count, begin + grain), worker);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
      next = count;
    }
  }

  void loop(int worker) {
    for (std::uint64_t seen = 0;;) {
      for (int spin = 0; spin < kSpins && generation.load() == seen && !stop.load(); ++spin) std::this_thread::yield();
      {
        std::unique_lock lock(mutex);
        wake.wait(lock, [&] { return stop.load() || generation.load() != seen; });
        if (stop.load()) return;
        seen = generation.load();
      }
      work(worker);
      if (running.fetch_sub(1) == 1) {
        const std::lock_guard lock(mutex);
        done.notify_one();
      }
    }
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  const int total = threads > 0 ? threads : physical_cores();
  state_->threads.reserve(static_cast<std::size_t>(total));
  try {
    for (int worker = 1; worker < total; ++worker)
      state_->threads.emplace_back([state = state_.get(), worker] { state->loop(worker); });
  } catch (const std::exception&) {  // the system gives no more: those that are there do the work
  }
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::size() const { return static_cast<int>(state_->threads.size()) + 1; }

void ThreadPool::parallel_for(i64 count, i64 grain, const std::function<void(i64, i64, int)>& body) {
  if (count <= 0) return;
  grain = std::max<i64>(grain, 1);
  State& s = *state_;
  if (s.threads.empty() || count <= grain) {
    for (i64 begin = 0; begin < count; begin += grain) body(begin, std::min(count, begin + grain), 0);
    return;
  }
  {
    const std::lock_guard lock(s.mutex);
    s.body = &body;
    s.count = count;
    s.grain = grain;
    s.next = 0;
    s.error = nullptr;
    s.running = static_cast<int>(s.threads.size());
    s.generation.fetch_add(1);
  }
  s.wake.notify_all();
  s.work(0);
  for (int spin = 0; spin < State::kSpins && s.running.load() != 0; ++spin) std::this_thread::yield();
  std::unique_lock lock(s.mutex);
  s.done.wait(lock, [&] { return s.running.load() == 0; });
  if (s.error) std::rethrow_exception(s.error);
}

int physical_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  std::set<std::string> cores;  // siblings of one core share this list
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    std::ifstream in(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
    std::string siblings;
    if (!std::getline(in, siblings)) siblings = std::to_string(cpu);
    cores.insert(siblings);
  }
  auto count = static_cast<double>(cores.size());
  if (const auto quota = processor_quota()) count = std::min(count, std::ceil(*quota));
  return std::max(1, static_cast<int>(count));
}

}  // namespace fathom
