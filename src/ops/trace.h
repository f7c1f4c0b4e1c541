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

  explicit TraceBackend(Backend* inner = nullptr, Hook hook = {})
      : inner_(inner), like_(inner), hook_(std::move(hook)) {}
  // Computes nothing, but takes the formats of weights, the optional operations and the scratch that `other` takes.
  explicit TraceBackend(const Backend* other) : like_(other) {}

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
  bool draws_ahead() const override { return inner_ != nullptr && inner_->draws_ahead(); }
  std::unique_ptr<Graph> capture(const std::function<void()>& pass) override;
  bool supports(const Format& format) const override {
    return like_ != nullptr ? like_->supports(format) : Backend::supports(format);
  }
  bool dequantizes(const Format& format) const override {
    return like_ != nullptr ? like_->dequantizes(format) : Backend::dequantizes(format);
  }

  i64 prompt_chunk() const override { return like_ != nullptr ? like_->prompt_chunk() : Backend::prompt_chunk(); }
  i64 expand_from() const override { return like_ != nullptr ? like_->expand_from() : Backend::expand_from(); }

  void lend(const Tensor& scratch) override {
    if (inner_ != nullptr) inner_->lend(scratch);
  }

#define FATHOM_TRACE(Op)                              \
  void run(const op::Op& op) override { traced(op); } \
  i64 scratch_bytes(const op::Op& op) const override { return like_ != nullptr ? like_->scratch_bytes(op) : 0; }
  FATHOM_OPERATIONS(FATHOM_TRACE)
#undef FATHOM_TRACE
#define FATHOM_TRACE(Op)                                                       \
  void run(const op::Op& op) override { traced(op); }                          \
  std::optional<i64> scratch_bytes(const op::Op& op) const override {          \
    return like_ != nullptr ? like_->scratch_bytes(op) : std::optional<i64>(); \
  }
  FATHOM_FUSED_OPERATIONS(FATHOM_TRACE)
#undef FATHOM_TRACE

 private:
  template <typename Op>
  void traced(const Op& op) {
    const Tensor output = note(op);
    if (inner_ != nullptr) inner_->run(op);
    if (hook_) hook_(Op::kName, output);
  }
  // Logs an operation; its output.
  template <typename Op>
  Tensor note(Op op) {
    std::vector<Tensor> operands;
    op.each([&](const Tensor& x) { operands.push_back(x); });
    note(Op::kName, operands);
    return operands.front();
  }
  void note(const char* name, std::span<const Tensor> operands);
  void forbid(const char* what) const;

  Backend* inner_ = nullptr;
  const Backend* like_ = nullptr;  // whose choices are taken; null: what every backend has
  Hook hook_;
  bool in_pass_ = false;
  i64 calls_ = 0;
  std::vector<std::string> log_;
};

}  // namespace fathom
