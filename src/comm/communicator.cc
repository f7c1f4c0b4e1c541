#include "comm/communicator.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "base/check.h"

namespace fathom {
namespace {

// What the ranks share: a place for each one's bytes, and a barrier that abort() can break.
struct Meeting {
  explicit Meeting(int n) : size(n), parts(static_cast<std::size_t>(n)) {}

  void wait() {
    std::unique_lock lock(mutex);
    const std::uint64_t round = rounds;
    if (++arrived == size) {
      arrived = 0;
      ++rounds;
      turn.notify_all();
    } else {
      turn.wait(lock, [&] { return aborted || rounds != round; });
    }
    CHECK(!aborted, "another rank has failed");
  }

  const int size;
  std::mutex mutex;
  std::condition_variable turn;
  int arrived = 0;
  std::uint64_t rounds = 0;
  bool aborted = false;
  std::vector<std::span<const std::byte>> parts;
  std::vector<std::byte>* bytes = nullptr;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Meeting> meeting, int rank) : meeting_(std::move(meeting)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return meeting_->size; }

  void exchange(std::span<const std::byte> mine, std::span<std::byte> all) override {
    CHECK(all.size() == mine.size() * meeting_->parts.size(), "an exchange of {} bytes among {} ranks into {}",
          mine.size(), size(), all.size());
    {
      const std::lock_guard lock(meeting_->mutex);
      meeting_->parts[static_cast<std::size_t>(rank_)] = mine;
    }
    meeting_->wait();
    auto to = all.begin();
    for (const auto& part : meeting_->parts) to = std::copy(part.begin(), part.end(), to);
    meeting_->wait();  // all have read before any changes its bytes
  }

  void broadcast(std::vector<std::byte>& bytes) override {
    if (rank_ == 0) {
      const std::lock_guard lock(meeting_->mutex);
      meeting_->bytes = &bytes;
    }
    meeting_->wait();
    if (rank_ != 0) bytes = *meeting_->bytes;
    meeting_->wait();
  }

  void abort() override {
    const std::lock_guard lock(meeting_->mutex);
    meeting_->aborted = true;
    meeting_->turn.notify_all();
  }

 private:
  std::shared_ptr<Meeting> meeting_;
  int rank_;
};

}  // namespace

void SingleCommunicator::exchange(std::span<const std::byte> mine, std::span<std::byte> all) {
  std::copy(mine.begin(), mine.end(), all.begin());
}

std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int size) {
  auto meeting = std::make_shared<Meeting>(size);
  std::vector<std::unique_ptr<Communicator>> all;
  all.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) all.push_back(std::make_unique<ThreadCommunicator>(meeting, rank));
  return all;
}

}  // namespace fathom
