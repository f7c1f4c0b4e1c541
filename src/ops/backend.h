// Backend: an abstract device. Memory, and about twenty plain computations with outputs given; nothing is checked here
// (ops.h has checked shapes) and nothing is returned. All computations are enqueued in order; none waits for the
// device.
//
// Conventions: T tokens, N rows. "act" is the activation type, float32 or bf16, whichever each tensor has: inputs are
// widened to float32, sums are float32, one rounding at the output. The last dimension of every tensor is contiguous;
// other strides are free where the comment says "strided", elsewhere tensors are contiguous.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "ops/types.h"
#include "tensor/arena.h"

namespace fathom {

// A recorded pass: replaying it runs the same operations on the same addresses. It must not outlive its backend.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void replay() = 0;           // enqueues
  virtual i64 operations() const = 0;  // device operations in it, for reports
};

// Memory of a device that has its own.
struct DeviceMemory {
  std::string device;  // for messages: "GPU 0 (NVIDIA H200, 140 GiB)"
  i64 free = 0, total = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  // ---- memory ----
  virtual std::string name() const = 0;
  virtual Device device() const = 0;
  virtual Storage allocate(std::size_t bytes) = 0;             // zeroed
  virtual void upload(const Tensor& y, const void* host) = 0;  // contiguous; host bytes may go at return
  virtual void download(void* host, const Tensor& x) = 0;      // waits; not inside a pass
  virtual void synchronize() = 0;                              // waits; not inside a pass
  // The device's own memory; nothing where it is that of the machine.
  virtual std::optional<DeviceMemory> memory() const { return std::nullopt; }
  // Records the operations that `pass` enqueues, without running them; null where the device cannot. The same pass must
  // have run before, so that the backend's own scratch memory has its size.
  virtual std::unique_ptr<Graph> capture([[maybe_unused]] const std::function<void()>& pass) { return nullptr; }

  // ---- number formats of weights ----
  // Whether products take matrices of this format.
  virtual bool supports(const Format& format) const {
    return &format == &kF32 || &format == &kBf16 || &format == &kFp8Block128 || &format == &kFp8Block128Ue8m0;
  }
  // Whether dequantize() takes them. The host's processor can do that for any format, by the format's own plain form.
  virtual bool dequantizes(const Format& format) const { return supports(format) || device().type == DeviceType::cpu; }

  // ---- rows ----
  // y [N, d] = rows ids - first of table [V, d]; zeros for ids outside [first, first + V). y act, table bf16 or f32.
  virtual void embedding(const Tensor& y, const Tensor& table, const Tensor& ids, i64 first) = 0;
  // y [N, d] = x[rows]; x [T, d] strided, same type.
  virtual void gather_rows(const Tensor& y, const Tensor& x, const Tensor& rows) = 0;
  // y = x in y's type; same shape, any rank, both strided.
  virtual void cast(const Tensor& y, const Tensor& x) = 0;
  // x += y; x and y act, contiguous, same shape, types may differ.
  virtual void add_(const Tensor& x, const Tensor& y) = 0;
  // y [N, d] = x / sqrt(mean(x^2) + eps) * weight; x strided rows, weight f32 [d], y contiguous or strided rows.
  virtual void rms_norm(const Tensor& y, const Tensor& x, const Tensor& weight, float eps) = 0;
  // y = silu(a) * b, elementwise [N, d], all act.
  virtual void silu_mul(const Tensor& y, const Tensor& a, const Tensor& b) = 0;

  // ---- products ----
  // y [N, out] = x [N, in] w^T; x and y strided rows, act. With GemmMode::fp8 and a block format, x is quantised first.
  virtual void linear(const Tensor& y, const Tensor& x, const Weight& w, GemmMode mode) = 0;
  // Rows offsets[e] .. offsets[e + 1] of x [R, in] times matrix e of w [E, out, in]; other rows of y are left alone.
  virtual void grouped_linear(const Tensor& y, const Tensor& x, const Weight& w, const Tensor& offsets,
                              GemmMode mode) = 0;
  // y [T, H, n] = for each head h: x [T, h, k] w [h, n, k]^T; x and y strided in T and H; w bf16 or f32.
  virtual void head_matmul(const Tensor& y, const Tensor& x, const Tensor& w) = 0;
  // The bf16 or f32 matrix y [out, in] of a weight, which may have any format that dequantizes(). With `rows` (int32
  // [2]) it is for the rows of one expert: where there are none, y need not be written.
  virtual void dequantize(const Tensor& y, const Weight& w, const Tensor& rows) = 0;
  // Reference act_quant: codes e4m3 [N, d], scales f32 [N, d / 128] of x [N, d] act.
  virtual void quantize(const Tensor& codes, const Tensor& scales, const Tensor& x, bool power_of_two) = 0;

  // ---- attention ----
  // Rotates neighbouring pairs (x[2i], x[2i + 1]) as complex numbers by freqs[position, i] (cos, sin), in place.
  // x [T, H, r] strided in T and H, act; freqs f32 [max_seq_len, r / 2, 2]; positions int32 [T].
  virtual void rope_(const Tensor& x, const Tensor& freqs, const Tensor& positions) = 0;
  // Writes kv [T, kv_lora_rank] and k_pe [T, rope] (both strided, act) into the cache rows slots [T].
  virtual void store_latent(const CacheLayer& cache, const Tensor& kv, const Tensor& k_pe, const Tensor& slots) = 0;
  // o [T, H, c] = softmax(scale * (q_c . latent + q_pe . key)) latent over the token's sequence up to its own position.
  // q_c [T, H, c], q_pe [T, H, r]: strided in T and H; o contiguous.
  virtual void attend_latent(const Tensor& o, const Tensor& q_c, const Tensor& q_pe, const CacheLayer& cache,
                             const Batch& batch, float scale) = 0;
  // y [total_context, width] = the cached rows of all sequences, one after another.
  virtual void gather_latent(const Tensor& y, const CacheLayer& cache, const Batch& batch) = 0;
  // o [T, H, v] = softmax(scale * q . k) v. q [T, H, nope + rope] ; kv [total_context, H, nope + v] holds each head's
  // key part and value; k_pe [total_context, rope] strided is shared by the heads.
  virtual void attend_expanded(const Tensor& o, const Tensor& q, const Tensor& kv, const Tensor& k_pe,
                               const Batch& batch, float scale) = 0;

  // ---- experts ----
  // weights f32 [T, k], indices int32 [T, k] from gate logits f32 [T, E]; bias f32 [E] or undefined.
  virtual void route(const Tensor& weights, const Tensor& indices, const Tensor& logits, const Tensor& bias,
                     const RouteArgs& args) = 0;
  // Fills routed (rows, offsets, places) from x [T, d] and indices [T, k]; this rank owns experts first .. first + n.
  // Within an expert, rows keep the order of the tokens.
  virtual void group_by_expert(const Routed& routed, const Tensor& x, const Tensor& indices, i64 first) = 0;
  // y [T, d] = sum over k of weights[t, k] * rows[places[t, k]], skipping places of -1; y and rows act.
  virtual void combine(const Tensor& y, const Tensor& rows, const Routed& routed, const Tensor& weights) = 0;

  // ---- sampling ----
  // ids int32 [N] drawn from logits f32 [N, V].
  virtual void sample(const Tensor& ids, const Tensor& logits, const SampleArgs& args) = 0;
  // ids[i] = -1 where row i of logits f32 [N, V] holds NaN or infinity; other ids stay.
  virtual void mark_not_finite(const Tensor& ids, const Tensor& logits) = 0;

  // ---- fused forms ----
  // For bf16 activations. Each is optional: true when it was done. What they mean is the composition of plain
  // operations in ops/fused.cc. ys[i] [N, out_i] = rms_norm(x, gain, eps) ws[i]^T
  virtual bool norm_linear(std::span<const Tensor> /*ys*/, const Tensor& /*x*/, const Tensor& /*gain*/, float /*eps*/,
                           std::span<const Weight> /*ws*/, GemmMode) {
    return false;
  }
  // h [N, out] float32 += x w^T
  virtual bool linear_add_(const Tensor& /*h*/, const Tensor& /*x*/, const Weight& /*w*/, GemmMode) { return false; }
  // o [T, H, v] = absorbed attention of q [T, H, nope + rope], not rotated, over the cache after the new tokens' rows
  // kv_pe [T, kv_lora_rank + rope], neither normalised nor rotated, are stored in it. May rotate q.
  virtual bool latent_attention(const Tensor& /*o*/, const Tensor& /*q*/, const Tensor& /*kv_pe*/,
                                const LatentAttention&, const CacheLayer&, const Batch&) {
    return false;
  }
  // h [T, dim] float32 += routed and shared experts of rms_norm(h)
  virtual bool experts_add_(const Tensor& /*h*/, const ExpertsLayer&, GemmMode) { return false; }
  // y [R, inter] = silu(x w1^T) * (x w3^T), rows grouped as in grouped_linear; rows of no group may be anything.
  virtual bool grouped_swiglu(const Tensor& /*y*/, const Tensor& /*x*/, const Weight& /*w1*/, const Weight& /*w3*/,
                              const Tensor& /*offsets*/, GemmMode) {
    return false;
  }
  // The next step of a decode batch (one token a sequence): see ops::advance.
  virtual bool advance(const Batch&, const Tensor& /*drawn*/, const Tensor& /*step*/, const Tensor& /*log*/,
                       i64 /*block_size*/) {
    return false;
  }
  // Random numbers of useful size, for benches without files.
  virtual bool fill_random(const Tensor& /*x*/, std::uint64_t /*seed*/) { return false; }
};

}  // namespace fathom
