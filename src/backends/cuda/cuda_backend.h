// CudaBackend: the operations on one NVIDIA GPU, enqueued on one stream.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/params.h"
#include "ops/backend.h"

namespace fathom {

struct CodeRows;

class CudaBackend final : public Backend {
 public:
  // Throws Error when there is no such GPU, no driver, or this build has no code for it. `portable`: without the
  // kernels that only some architectures have, as on a card that lacks them.
  explicit CudaBackend(int index, bool portable = false);
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
  std::unique_ptr<Graph> capture(const std::function<void()>& pass) override;

  void embedding(const Tensor& y, const Tensor& table, const Tensor& ids, i64 first) override;
  void gather_rows(const Tensor& y, const Tensor& x, const Tensor& rows) override;
  void cast(const Tensor& y, const Tensor& x) override;
  void add_(const Tensor& x, const Tensor& y) override;
  void rms_norm(const Tensor& y, const Tensor& x, const Tensor& weight, float eps) override;
  void silu_mul(const Tensor& y, const Tensor& a, const Tensor& b) override;

  void linear(const Tensor& y, const Tensor& x, const Weight& w, GemmMode mode) override;
  void grouped_linear(const Tensor& y, const Tensor& x, const Weight& w, const Tensor& offsets, GemmMode mode) override;
  void head_matmul(const Tensor& y, const Tensor& x, const Tensor& w) override;
  void dequantize(const Tensor& y, const Weight& w, const Tensor& rows) override;
  void quantize(const Tensor& codes, const Tensor& scales, const Tensor& x, bool power_of_two) override;

  void rope_(const Tensor& x, const Tensor& freqs, const Tensor& positions) override;
  void store_latent(const CacheLayer& cache, const Tensor& kv, const Tensor& k_pe, const Tensor& slots) override;
  void attend_latent(const Tensor& o, const Tensor& q_c, const Tensor& q_pe, const CacheLayer& cache,
                     const Batch& batch, float scale) override;
  void gather_latent(const Tensor& y, const CacheLayer& cache, const Batch& batch) override;
  void attend_expanded(const Tensor& o, const Tensor& q, const Tensor& kv, const Tensor& k_pe, const Batch& batch,
                       float scale) override;

  void route(const Tensor& weights, const Tensor& indices, const Tensor& logits, const Tensor& bias,
             const RouteArgs& args) override;
  void group_by_expert(const Routed& routed, const Tensor& x, const Tensor& indices, i64 first) override;
  void combine(const Tensor& y, const Tensor& rows, const Routed& routed, const Tensor& weights) override;

  void sample(const Tensor& ids, const Tensor& logits, const SampleArgs& args) override;
  void mark_not_finite(const Tensor& ids, const Tensor& logits) override;

  bool norm_linear(std::span<const Tensor> ys, const Tensor& x, const Tensor& gain, float eps,
                   std::span<const Weight> ws, GemmMode mode) override;
  bool linear_add_(const Tensor& h, const Tensor& x, const Weight& w, GemmMode mode) override;
  bool latent_attention(const Tensor& o, const Tensor& q, const Tensor& kv_pe, const LatentAttention& args,
                        const CacheLayer& cache, const Batch& batch) override;
  bool experts_add_(const Tensor& h, const ExpertsLayer& layer, GemmMode mode) override;
  bool grouped_swiglu(const Tensor& y, const Tensor& x, const Weight& w1, const Weight& w3, const Tensor& offsets,
                      GemmMode mode) override;
  bool advance(const Batch& batch, const Tensor& drawn, const Tensor& step, const Tensor& log, i64 block_size) override;
  bool fill_random(const Tensor& x, std::uint64_t seed) override;

  bool has_hopper_kernels() const { return hopper_.encode != nullptr; }

 private:
  // The stream, with this thread's device set.
  cudaStream_t stream() const;
  // y (+)= x w^T, grouped if there are offsets, by the kernels for Hopper; false where they do not apply or pay.
  bool wide_linear(const Tensor& y, const Tensor& x, const Weight& w, const Tensor& offsets, GemmMode mode, bool add);
  bool wide_norm_linear(std::span<const Tensor> ys, const Tensor& x, const Tensor& gain, float eps,
                        std::span<const Weight> ws, GemmMode mode);
  void run_products(const std::vector<cuda::WideProduct>& all);
  bool few_shared(const cuda::SmallMoe& p);
  // The fused form of latent_attention for long chunks: keys and values of each head are made from the latent cache.
  bool prompt_attention(const Tensor& o, const Tensor& q, const Tensor& kv_pe, const LatentAttention& args,
                        const CacheLayer& cache, const Batch& batch);
  cuda::Operand quantised(const Tensor& x, const Weight& w);
  Tensor rounded_to_fp8(const Tensor& x, const Weight& w);
  void take_rows(cuda::SmallLinear& p, const Tensor& x, const Weight& w, const CodeRows& rows);
  void carve_experts(cuda::SmallMoe& p, bool merged);
  void run_experts(cuda::SmallMoe& p, bool fp8);
  // A zero in device memory for kernels that count their blocks; they leave a zero.
  std::int32_t* counter();
  // Scratch that lives until the next call; grows outside of captures only, and never moves under a recorded graph.
  void* workspace(std::size_t bytes);

  int index_;
  cudaStream_t stream_ = nullptr;
  cuda::Hopper hopper_;
  std::string description_;
  bool capturing_ = false;
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
