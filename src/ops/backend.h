// Backend: an abstract device. Memory, and the operations of ops/operations.h with shapes checked and outputs given.
// All of them are enqueued in order and return nothing; only those of ranks on a CPU wait, none waits for the device.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ops/operations.h"
#include "tensor/arena.h"

namespace fathom {

// A recorded pass: replaying it runs the same operations on the same addresses. It must not outlive its backend.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void replay() = 0;           // enqueues
  virtual i64 operations() const = 0;  // device operations in it, for reports
};

// Memory of a device.
struct DeviceMemory {
  std::string device;  // for messages: "GPU 0 (NVIDIA H200, 140 GiB)", "this machine"
  i64 free = 0, total = 0;
  bool host = false;  // the machine's own, which is taken only as it is touched
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string name() const = 0;
  virtual Device device() const = 0;
  virtual Storage allocate(std::size_t bytes) = 0;             // zeroed
  virtual void upload(const Tensor& y, const void* host) = 0;  // contiguous; host bytes may go at return
  virtual void download(void* host, const Tensor& x) = 0;      // waits; not inside a pass
  virtual void synchronize() = 0;                              // waits; not inside a pass
  // The memory that it has; nothing where that is not known.
  virtual std::optional<DeviceMemory> memory() const { return std::nullopt; }
  // Whether it works while the host goes on, and can advance: then several decode passes are planned at once, so that
  // it never waits for the host.
  virtual bool draws_ahead() const { return false; }
  // Records the operations that `pass` enqueues, without running them; null where the device cannot. Where scratch is
  // not lent the same pass must have run before, so that the backend's own has its size.
  virtual std::unique_ptr<Graph> capture([[maybe_unused]] const std::function<void()>& pass) { return nullptr; }

  // Whether products take weights of this format.
  virtual bool supports(const Format& format) const {
    return &format == &kF32 || &format == &kBf16 || &format == &kFp8Block128 || &format == &kFp8Block128Ue8m0;
  }
  // Whether Dequantize takes them. The host's processor can do that for any format, by the format's own plain form.
  virtual bool dequantizes(const Format& format) const { return supports(format) || device().type == DeviceType::cpu; }

  // New tokens of a sequence from which its attention is faster by expanded keys and values. Over the latent, a token
  // and key of one head cost 2 (576 + 512) operations; expanded they cost 2 (192 + 128), and each key 2 * 512 * 256
  // once for all new tokens of its sequence: by operations the forms meet at 171.
  virtual i64 expand_from() const { return 171; }

  // Tokens of a pass that read a prompt fast enough: where there are more, reading the weights is little beside the
  // work.
  virtual i64 prompt_chunk() const { return 512; }

  // The kernel that computes such a product and how it is divided, in one line; empty where there is no choice.
  virtual std::string explain(const ProductCase& /*product*/) const { return {}; }

// Every operation, and the bytes of scratch that it takes: a pure function of types, shapes and alignments.
#define FATHOM_DECLARE(Op)             \
  virtual void run(const op::Op&) = 0; \
  virtual i64 scratch_bytes(const op::Op&) const { return 0; }
  FATHOM_OPERATIONS(FATHOM_DECLARE)
#undef FATHOM_DECLARE
// The same of an optional one; nothing where this backend has no kernel for the case.
#define FATHOM_DECLARE(Op)                                                                   \
  virtual void run(const op::Op&) { fail("{} has no operation {}", name(), op::Op::kName); } \
  virtual std::optional<i64> scratch_bytes(const op::Op&) const { return std::nullopt; }
  FATHOM_FUSED_OPERATIONS(FATHOM_DECLARE)
#undef FATHOM_DECLARE

  // The scratch of the next operation. Without it a backend that needs some takes memory of its own.
  virtual void lend(const Tensor& /*scratch*/) {}

  // An optional operation with scratch of the backend's own, as benches and tests call it: whether it was done.
  template <typename Op>
  bool try_run(const Op& op) {
    const bool possible = scratch_bytes(op).has_value();
    if (possible) run(op);
    return possible;
  }
};

// Inside a backend's class: declares that it overrides every operation.
#define FATHOM_OVERRIDE(Op) void run(const op::Op& op) override;
#define FATHOM_OVERRIDE_OPERATIONS FATHOM_OPERATIONS(FATHOM_OVERRIDE)
// The same of every optional one.
#define FATHOM_OVERRIDE_FUSED(Op)      \
  void run(const op::Op& op) override; \
  std::optional<i64> scratch_bytes(const op::Op& op) const override;
#define FATHOM_OVERRIDE_FUSED_OPERATIONS FATHOM_FUSED_OPERATIONS(FATHOM_OVERRIDE_FUSED)

}  // namespace fathom
