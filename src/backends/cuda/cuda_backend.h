// CudaBackend: the operations on one NVIDIA GPU, enqueued on one stream.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/linear/product.h"
#include "kernels/cuda/moe/moe.h"
#include "ops/backend.h"

namespace fathom {

class CudaBackend final : public Backend {
 public:
  // Throws Error when there is no such GPU, no driver, or this build has no code for it. `portable`: without the
  // kernels that only some architectures have, as on a card that lacks them.
  explicit CudaBackend(int index, bool portable = false);
  // A GPU that need not be here: it says what it would choose and how much scratch that takes, and can run nothing.
  explicit CudaBackend(const cuda::Device& described) : index_(described.index), stream_{nullptr, described} {}
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;
  ~CudaBackend() override;

  std::string name() const override { return "cuda"; }
  Device device() const override { return {DeviceType::cuda, index_}; }
  Storage allocate(std::size_t bytes) override;
  void upload(const Tensor& y, const void* host) override;
  void download(void* host, const Tensor& x) override;
  void synchronize() override;
  std::optional<DeviceMemory> memory() const override;
  bool draws_ahead() const override { return true; }
  std::unique_ptr<Graph> capture(const std::function<void()>& pass) override;

  // By the measured rates of the kernels for Hopper (bench/results) both forms of attention meet at about 34 new
  // tokens, since the expanded one reads a key once for 128 tokens; the others have no fast kernel for it.
  i64 expand_from() const override { return has_hopper_kernels() ? 64 : i64{1} << 40; }

  // Each pass reads all weights, for little work up to here.
  i64 prompt_chunk() const override { return 4096; }

  std::string explain(const ProductCase& product) const override;

  FATHOM_OVERRIDE_OPERATIONS
  FATHOM_OVERRIDE_FUSED_OPERATIONS

  i64 scratch_bytes(const op::Linear& op) const override;
  i64 scratch_bytes(const op::GroupedLinear& op) const override;
  i64 scratch_bytes(const op::AttendLatent& op) const override;
  void lend(const Tensor& scratch) override { lent_ = scratch; }

  bool has_hopper_kernels() const { return gpu().sm90a; }

 private:
  // The stream, with this thread's device set.
  cuda::Stream& stream();
  const cuda::Device& gpu() const { return stream_.device; }
  // A product's kernel, and the bytes of its scratch; nothing where no kernel supports it.
  std::optional<i64> product_scratch(const cuda::Product& p) const;
  void product(const cuda::Product& p, void* scratch = nullptr);
  void run_experts(cuda::MoeArgs& p, bool fp8);
  // A zero in device memory for kernels that count their blocks; they leave a zero.
  std::int32_t* counter();
  // Scratch that lives until the next call: what was lent, or the backend's own, which grows outside of captures only
  // and never moves under a recorded graph.
  void* workspace(i64 bytes);

  int index_;
  cuda::Stream stream_;
  std::string description_;
  bool capturing_ = false;
  Tensor lent_;
  std::vector<Storage> workspaces_;  // the last is in use; older ones belong to recorded graphs
  Storage counter_;
  void* staging_ = nullptr;  // pinned: small uploads pass through it without waiting
  std::size_t staged_ = 0;
  void* fetched_ = nullptr;  // pinned: the end of it, for small downloads
};

// The GPUs of this machine: their number, or 0 and the reason in `why`.
int cuda_devices(std::string& why);
// Why this program cannot run on a GPU that is there; empty when it can.
std::string cuda_obstacle(int index);
// "NVIDIA H200, 139 GiB"
std::string cuda_device_description(int index);

}  // namespace fathom
