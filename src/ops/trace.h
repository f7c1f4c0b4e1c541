// TraceBackend: wraps a backend, or none, and watches a pass: logs each call with its operands' addresses and shapes,
// fails a pass that allocates, waits or moves data to or from the host, and gives each output to a hook.
// Without an inner backend it computes nothing: that is how memory is measured before it is allocated.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/backend.h"

namespace fathom {

class TraceBackend final : public Backend {
 public:
  // Called after each operation with its name and output.
  using Hook = std::function<void(const std::string& op, const Tensor& output)>;

  explicit TraceBackend(Backend* inner = nullptr, Hook hook = {}) : inner_(inner), hook_(std::move(hook)) {}
  // Computes nothing, and takes the formats of weights that `other` takes.
  explicit TraceBackend(const Backend* other) : formats_(other) {}

  // Between begin_pass and end_pass only enqueuing is allowed.
  void begin_pass();
  // The pass's calls: "linear 0x7f.. [3, 4] ...".
  std::vector<std::string> end_pass();
  i64 calls() const { return calls_; }

  std::string name() const override;
  Device device() const override;
  Storage allocate(std::size_t bytes) override;
  void upload(const Tensor& y, const void* host) override;
  void download(void* host, const Tensor& x) override;
  void synchronize() override;
  std::optional<DeviceMemory> memory() const override;
  std::unique_ptr<Graph> capture(const std::function<void()>& pass) override;
  bool supports(const Format& format) const override;
  bool dequantizes(const Format& format) const override;

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

 private:
  // Logs the call, runs it on the inner backend if there is one, shows the output to the hook.
  template <typename Call>
  void traced(const char* op, std::initializer_list<Tensor> operands, Call&& call);
  // A fused form: logged and shown only when the inner backend did it.
  template <typename Call>
  bool tried(const char* op, std::initializer_list<Tensor> operands, Call&& call);
  void forbid(const char* what) const;

  Backend* inner_ = nullptr;
  const Backend* formats_ = nullptr;
  Hook hook_;
  bool in_pass_ = false;
  i64 calls_ = 0;
  std::vector<std::string> log_;
};

}  // namespace fathom
