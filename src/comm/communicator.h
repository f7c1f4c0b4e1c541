// Ranks talking: who they are, and bytes on the host. What they compute together is an operation (ops/collectives.h).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace fathom {

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // all [size * n] becomes every rank's n bytes, in the order of the ranks; n is the same everywhere. Waits for all.
  virtual void exchange(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  // All ranks get rank 0's bytes. Waits.
  virtual void broadcast(std::vector<std::byte>& bytes) = 0;
  // Tells the peers that this rank has failed: their waiting and later calls throw Error.
  virtual void abort() = 0;
};

// One rank: nothing to say.
class SingleCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void exchange(std::span<const std::byte> mine, std::span<std::byte> all) override;
  void broadcast(std::vector<std::byte>&) override {}
  void abort() override {}
};

// Stands in for ranks that nobody is, while a pass is measured or traced: no memory is touched.
class AbsentRanks final : public Communicator {
 public:
  AbsentRanks(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void exchange(std::span<const std::byte>, std::span<std::byte>) override {}
  void broadcast(std::vector<std::byte>&) override {}
  void abort() override {}

 private:
  int rank_, size_;
};

// Ranks as threads of this process: communicator i belongs to the thread of rank i.
std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int size);

}  // namespace fathom
