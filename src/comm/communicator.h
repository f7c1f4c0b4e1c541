// Ranks talking: the few collectives that tensor parallelism needs.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace fathom {

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // x becomes the sum of all ranks' x. Contiguous, float32 or bf16; summed in rank order in float32, so all ranks
  // agree.
  virtual void all_reduce(const Tensor& x) = 0;
  // y [size, ...] becomes every rank's x [...], in rank order.
  virtual void all_gather(const Tensor& y, const Tensor& x) = 0;
  // All ranks get rank 0's bytes.
  virtual void broadcast(std::vector<std::byte>& bytes) = 0;
  // Tells the peers that this rank has failed: their waiting and later calls throw Error.
  virtual void abort() = 0;
};

// One rank: nothing to say.
class SingleCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_reduce(const Tensor&) override {}
  void all_gather(const Tensor& y, const Tensor& x) override;
  void broadcast(std::vector<std::byte>&) override {}
  void abort() override {}
};

// Ranks as threads of this process, on host memory: communicator i belongs to the thread of rank i.
std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int size);

}  // namespace fathom
