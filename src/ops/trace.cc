#include "ops/trace.h"

#include <utility>

namespace fathom {

template <typename Call>
void TraceBackend::traced(const char* op, std::initializer_list<Tensor> operands, Call&& call) {
  ++calls_;
  if (in_pass_) {
    std::string line = op;
    for (const Tensor& x : operands)
      line += fmt::format(" {}{}@{}", name_of(x.dtype()), to_string(x.shape()), fmt::ptr(x.data()));
    log_.push_back(std::move(line));
  }
  if (inner_ != nullptr) call(*inner_);
  if (hook_) hook_(op, *operands.begin());
}

template <typename Call>
bool TraceBackend::tried(const char* op, std::initializer_list<Tensor> operands, Call&& call) {
  if (inner_ == nullptr || !call(*inner_)) return false;
  traced(op, operands, [](Backend&) {});
  return true;
}

void TraceBackend::forbid(const char* what) const {
  CHECK(!in_pass_, "a pass must only enqueue, this one tried to {} after {}", what,
        log_.empty() ? "nothing" : log_.back());
}

void TraceBackend::begin_pass() {
  forbid("begin another pass");
  in_pass_ = true;
  log_.clear();
}

std::vector<std::string> TraceBackend::end_pass() {
  in_pass_ = false;
  return std::exchange(log_, {});
}

std::string TraceBackend::name() const { return inner_ != nullptr ? "trace of " + inner_->name() : "trace"; }
Device TraceBackend::device() const { return inner_ != nullptr ? inner_->device() : Device{}; }

Storage TraceBackend::allocate(std::size_t bytes) {
  forbid("allocate memory");
  if (inner_ != nullptr) return inner_->allocate(bytes);
  return Storage(reinterpret_cast<void*>(Arena::kAlignment), bytes, device(), [](void*) {});  // never touched
}

void TraceBackend::upload(const Tensor& y, const void* host) {
  forbid("upload");
  if (inner_ != nullptr) inner_->upload(y, host);
}

void TraceBackend::download(void* host, const Tensor& x) {
  forbid("download");
  if (inner_ != nullptr) inner_->download(host, x);
}

void TraceBackend::synchronize() {
  forbid("wait for the device");
  if (inner_ != nullptr) inner_->synchronize();
}

std::optional<DeviceMemory> TraceBackend::memory() const { return inner_ != nullptr ? inner_->memory() : std::nullopt; }

std::unique_ptr<Graph> TraceBackend::capture(const std::function<void()>& pass) {
  forbid("capture a pass");
  return inner_ != nullptr ? inner_->capture(pass) : nullptr;
}

bool TraceBackend::supports(const Format& format) const {
  const Backend* asked = inner_ != nullptr ? inner_ : formats_;
  return asked != nullptr ? asked->supports(format) : Backend::supports(format);
}

bool TraceBackend::dequantizes(const Format& format) const {
  const Backend* asked = inner_ != nullptr ? inner_ : formats_;
  return asked != nullptr ? asked->dequantizes(format) : Backend::dequantizes(format);
}

void TraceBackend::embedding(const Tensor& y, const Tensor& table, const Tensor& ids, i64 first) {
  traced("embedding", {y, table, ids}, [&](Backend& b) { b.embedding(y, table, ids, first); });
}

void TraceBackend::gather_rows(const Tensor& y, const Tensor& x, const Tensor& rows) {
  traced("gather_rows", {y, x, rows}, [&](Backend& b) { b.gather_rows(y, x, rows); });
}

void TraceBackend::cast(const Tensor& y, const Tensor& x) {
  traced("cast", {y, x}, [&](Backend& b) { b.cast(y, x); });
}

void TraceBackend::add_(const Tensor& x, const Tensor& y) {
  traced("add_", {x, y}, [&](Backend& b) { b.add_(x, y); });
}

void TraceBackend::rms_norm(const Tensor& y, const Tensor& x, const Tensor& weight, float eps) {
  traced("rms_norm", {y, x, weight}, [&](Backend& b) { b.rms_norm(y, x, weight, eps); });
}

void TraceBackend::silu_mul(const Tensor& y, const Tensor& a, const Tensor& b) {
  traced("silu_mul", {y, a, b}, [&](Backend& backend) { backend.silu_mul(y, a, b); });
}

void TraceBackend::linear(const Tensor& y, const Tensor& x, const Weight& w, GemmMode mode) {
  traced("linear", {y, x, w.data}, [&](Backend& b) { b.linear(y, x, w, mode); });
}

void TraceBackend::grouped_linear(const Tensor& y, const Tensor& x, const Weight& w, const Tensor& offsets,
                                  GemmMode mode) {
  traced("grouped_linear", {y, x, w.data, offsets}, [&](Backend& b) { b.grouped_linear(y, x, w, offsets, mode); });
}

void TraceBackend::head_matmul(const Tensor& y, const Tensor& x, const Tensor& w) {
  traced("head_matmul", {y, x, w}, [&](Backend& b) { b.head_matmul(y, x, w); });
}

void TraceBackend::dequantize(const Tensor& y, const Weight& w, const Tensor& rows) {
  traced("dequantize", {y, w.data}, [&](Backend& b) { b.dequantize(y, w, rows); });
}

void TraceBackend::quantize(const Tensor& codes, const Tensor& scales, const Tensor& x, bool power_of_two) {
  traced("quantize", {codes, scales, x}, [&](Backend& b) { b.quantize(codes, scales, x, power_of_two); });
}

void TraceBackend::rope_(const Tensor& x, const Tensor& freqs, const Tensor& positions) {
  traced("rope_", {x, freqs, positions}, [&](Backend& b) { b.rope_(x, freqs, positions); });
}

void TraceBackend::store_latent(const CacheLayer& cache, const Tensor& kv, const Tensor& k_pe, const Tensor& slots) {
  traced("store_latent", {cache.latent, kv, k_pe, slots}, [&](Backend& b) { b.store_latent(cache, kv, k_pe, slots); });
}

void TraceBackend::attend_latent(const Tensor& o, const Tensor& q_c, const Tensor& q_pe, const CacheLayer& cache,
                                 const Batch& batch, float scale) {
  traced("attend_latent", {o, q_c, q_pe, cache.latent, batch.block_tables},
         [&](Backend& b) { b.attend_latent(o, q_c, q_pe, cache, batch, scale); });
}

void TraceBackend::gather_latent(const Tensor& y, const CacheLayer& cache, const Batch& batch) {
  traced("gather_latent", {y, cache.latent}, [&](Backend& b) { b.gather_latent(y, cache, batch); });
}

void TraceBackend::attend_expanded(const Tensor& o, const Tensor& q, const Tensor& kv, const Tensor& k_pe,
                                   const Batch& batch, float scale) {
  traced("attend_expanded", {o, q, kv, k_pe}, [&](Backend& b) { b.attend_expanded(o, q, kv, k_pe, batch, scale); });
}

void TraceBackend::route(const Tensor& weights, const Tensor& indices, const Tensor& logits, const Tensor& bias,
                         const RouteArgs& args) {
  traced("route", {weights, indices, logits}, [&](Backend& b) { b.route(weights, indices, logits, bias, args); });
}

void TraceBackend::group_by_expert(const Routed& routed, const Tensor& x, const Tensor& indices, i64 first) {
  traced("group_by_expert", {routed.rows, routed.offsets, routed.places, x, indices},
         [&](Backend& b) { b.group_by_expert(routed, x, indices, first); });
}

void TraceBackend::combine(const Tensor& y, const Tensor& rows, const Routed& routed, const Tensor& weights) {
  traced("combine", {y, rows, weights}, [&](Backend& b) { b.combine(y, rows, routed, weights); });
}

void TraceBackend::sample(const Tensor& ids, const Tensor& logits, const SampleArgs& args) {
  traced("sample", {ids, logits}, [&](Backend& b) { b.sample(ids, logits, args); });
}

void TraceBackend::mark_not_finite(const Tensor& ids, const Tensor& logits) {
  traced("mark_not_finite", {ids, logits}, [&](Backend& b) { b.mark_not_finite(ids, logits); });
}

bool TraceBackend::norm_linear(std::span<const Tensor> ys, const Tensor& x, const Tensor& gain, float eps,
                               std::span<const Weight> ws, GemmMode mode) {
  return tried("norm_linear", {ys.front(), ys.back(), x},
               [&](Backend& b) { return b.norm_linear(ys, x, gain, eps, ws, mode); });
}

bool TraceBackend::linear_add_(const Tensor& h, const Tensor& x, const Weight& w, GemmMode mode) {
  return tried("linear_add_", {h, x, w.data}, [&](Backend& b) { return b.linear_add_(h, x, w, mode); });
}

bool TraceBackend::latent_attention(const Tensor& o, const Tensor& q, const Tensor& kv_pe, const LatentAttention& args,
                                    const CacheLayer& cache, const Batch& batch) {
  return tried("latent_attention", {o, q, kv_pe, cache.latent},
               [&](Backend& b) { return b.latent_attention(o, q, kv_pe, args, cache, batch); });
}

bool TraceBackend::experts_add_(const Tensor& h, const ExpertsLayer& layer, GemmMode mode) {
  return tried("experts_add_", {h, layer.w1.data}, [&](Backend& b) { return b.experts_add_(h, layer, mode); });
}

bool TraceBackend::grouped_swiglu(const Tensor& y, const Tensor& x, const Weight& w1, const Weight& w3,
                                  const Tensor& offsets, GemmMode mode) {
  return tried("grouped_swiglu", {y, x, w1.data, w3.data},
               [&](Backend& b) { return b.grouped_swiglu(y, x, w1, w3, offsets, mode); });
}

bool TraceBackend::advance(const Batch& batch, const Tensor& drawn, const Tensor& step, const Tensor& log,
                           i64 block_size) {
  return tried("advance", {batch.ids, drawn},
               [&](Backend& b) { return b.advance(batch, drawn, step, log, block_size); });
}

}  // namespace fathom
