#include "comm/communicator.h"

#include <condition_variable>
#include <cstring>
#include <mutex>

namespace fathom {
namespace {

// What the ranks share: a place for each one's pointer, and a barrier that abort() can break.
struct Meeting {
  explicit Meeting(int n) : size(n), tensors(static_cast<std::size_t>(n)) {}

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
  std::vector<Tensor> tensors;
  std::vector<std::byte>* bytes = nullptr;
};

float load(const Tensor& x, i64 i) {
  return x.dtype() == DType::f32 ? x.as<float>()[i] : bf16_to_float(x.as<bf16_bits>()[i]);
}

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Meeting> meeting, int rank) : meeting_(std::move(meeting)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return meeting_->size; }

  void all_reduce(const Tensor& x) override {
    CHECK(x.contiguous() && (x.dtype() == DType::f32 || x.dtype() == DType::bf16), "all_reduce of {}",
          name_of(x.dtype()));
    publish(x);
    std::vector<float> sum(static_cast<std::size_t>(x.numel()), 0.0f);
    for (const Tensor& part : meeting_->tensors)
      for (i64 i = 0; i < x.numel(); ++i) sum[static_cast<std::size_t>(i)] += load(part, i);
    meeting_->wait();  // all have read before any writes
    for (i64 i = 0; i < x.numel(); ++i) {
      const float value = sum[static_cast<std::size_t>(i)];
      if (x.dtype() == DType::f32)
        x.as<float>()[i] = value;
      else
        x.as<bf16_bits>()[i] = float_to_bf16(value);
    }
  }

  void all_gather(const Tensor& y, const Tensor& x) override {
    CHECK(x.contiguous() && y.contiguous() && y.bytes() == x.bytes() * size(), "all_gather of unequal parts");
    publish(x);
    for (int r = 0; r < size(); ++r)
      std::memcpy(static_cast<std::byte*>(y.data()) + r * x.bytes(),
                  meeting_->tensors[static_cast<std::size_t>(r)].data(), static_cast<std::size_t>(x.bytes()));
    meeting_->wait();
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
  // Shows x to the peers and returns when all have shown theirs.
  void publish(const Tensor& x) {
    {
      const std::lock_guard lock(meeting_->mutex);
      meeting_->tensors[static_cast<std::size_t>(rank_)] = x;
    }
    meeting_->wait();
  }

  std::shared_ptr<Meeting> meeting_;
  int rank_;
};

}  // namespace

void SingleCommunicator::all_gather(const Tensor& y, const Tensor& x) {
  if (y.data() != x.data()) std::memcpy(y.data(), x.data(), static_cast<std::size_t>(x.bytes()));
}

std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int size) {
  auto meeting = std::make_shared<Meeting>(size);
  std::vector<std::unique_ptr<Communicator>> all;
  all.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) all.push_back(std::make_unique<ThreadCommunicator>(meeting, rank));
  return all;
}

}  // namespace fathom
