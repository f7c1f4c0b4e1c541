// The fused forms: for up to 64 tokens with bf16 activations and bf16 or FP8 weights.
#include <algorithm>

#include "backends/cuda/arrays.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/small.h"

namespace fathom {
namespace {

constexpr i64 kNormedTokens = 8;  // the norm is part of the product; it is cheaper on its own from here on

// Parts of a workspace, one after another.
class Carver {
 public:
  explicit Carver(void* base) : base_(static_cast<std::byte*>(base)) {}
  template <typename T>
  T* take(i64 count) {
    T* part = reinterpret_cast<T*>(base_ + used_);
    used_ += (static_cast<std::size_t>(count) * sizeof(T) + 255) / 256 * 256;
    return part;
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

bool same_kind(std::span<const Weight> ws) {
  return std::all_of(ws.begin(), ws.end(), [&](const Weight& w) { return w.data.dtype() == ws[0].data.dtype(); });
}

}  // namespace

bool CudaBackend::norm_linear(std::span<const Tensor> ys, const Tensor& x, const Tensor& gain, float eps,
                              std::span<const Weight> ws, GemmMode mode) {
  if (!small_rows(x.dim(0))) return wide_norm_linear(ys, x, gain, eps, ws, mode);
  if (ys.size() > 3 || !same_kind(ws)) return false;
  for (const Weight& w : ws)
    if (!small_weight(w, mode)) return false;
  cuda::SmallLinear p;
  p.parts = static_cast<int>(ys.size());
  p.tokens = static_cast<int>(x.dim(0));
  for (std::size_t i = 0; i < ys.size(); ++i)
    p.part[i] = {matrix_of(ws[i]), ys[i].data(), type_of(ys[i].dtype()), ys[i].stride(0)};
  if (x.dim(0) <= kNormedTokens && x.dtype() == DType::f32 && aligned_rows(x)) {
    p.x = x.data();
    p.x_stride = x.stride(0);
    p.gain = gain.as<float>();
    p.eps = eps;
  } else {
    const Tensor normed(workspace(static_cast<std::size_t>(x.numel() * 2)), DType::bf16, x.shape(), device());
    rms_norm(normed, x, gain, eps);
    p.x = normed.data();
    p.x_stride = normed.stride(0);
  }
  linear_small(stream(), p);
  return true;
}

bool CudaBackend::linear_add_(const Tensor& h, const Tensor& x, const Weight& w, GemmMode mode) {
  if (!small_rows(x.dim(0))) return h.dtype() == DType::f32 && wide_linear(h, x, w, {}, mode, true);
  if (!small_weight(w, mode) || x.dtype() != DType::bf16 || !aligned_rows(x)) return false;
  cuda::SmallLinear p;
  p.part[0] = {matrix_of(w), h.data(), type_of(h.dtype()), h.stride(0)};
  p.tokens = static_cast<int>(x.dim(0));
  p.x = x.data();
  p.x_stride = x.stride(0);
  p.add = true;
  linear_small(stream(), p);
  return true;
}

bool CudaBackend::latent_attention(const Tensor& o, const Tensor& q, const Tensor& kv_pe, const LatentAttention& args,
                                   const CacheLayer& cache, const Batch& batch) {
  if (!small_rows(q.dim(0))) return prompt_attention(o, q, kv_pe, args, cache, batch);
  if (!small_rows(q.dim(0)) || !latent_fits(q, cache) || kv_pe.dtype() != DType::bf16 || o.dtype() != DType::bf16 ||
      args.wk_b.dtype() != DType::bf16 || args.wk_b.dim(2) % 8 != 0 || q.dim(2) % 8 != 0 || !aligned_rows(kv_pe))
    return false;
  const i64 tokens = q.dim(0), heads = q.dim(1), c = cache.kv_lora_rank, nope = args.wk_b.dim(2);
  cuda::SmallMla p = latent_of(batch, cache, heads, args.scale);
  const auto carve = [&](void* base) {
    Carver carver(base);
    auto* q_c = carver.take<bf16_bits>(tokens * heads * c);
    p.q_c = q_c;
    p.o_c = carver.take<bf16_bits>(tokens * heads * c);
    p.parts = carver.take<float>(tokens * heads * p.splits * c);
    p.sums = carver.take<float>(tokens * heads * p.splits);
    return carver.used();
  };
  carve(workspace(carve(nullptr)));
  p.nope = static_cast<int>(nope);
  p.q = q.data();
  p.q_stride = q.stride(0);
  p.kv_pe = kv_pe.data();
  p.kv_stride = kv_pe.stride(0);
  p.gain = args.kv_norm.as<float>();
  p.eps = args.eps;
  p.freqs = args.freqs.as<float>();
  p.slots = batch.slots.as<std::int32_t>();
  p.wk_b.data = args.wk_b.data();
  p.q_c_stride = heads * c;
  p.q_c_head = c;
  p.q_pe = static_cast<const bf16_bits*>(q.data()) + nope;
  p.q_pe_stride = q.stride(0);
  p.q_pe_head = q.stride(1);
  cuda::mla_absorb(stream(), p);
  cuda::mla_attend(stream(), p);
  head_matmul(o, Tensor(p.o_c, DType::bf16, {tokens, heads, c}, device()), args.wv_b);
  return true;
}

bool CudaBackend::experts_add_(const Tensor& h, const ExpertsLayer& layer, GemmMode mode) {
  const i64 tokens = h.dim(0), dim = h.dim(1), experts = layer.w1.data.dim(0), top_k = layer.route.top_k;
  const Weight all[] = {layer.w1, layer.w2, layer.w3, layer.shared_w1, layer.shared_w2, layer.shared_w3};
  if (!small_rows(tokens) || !same_kind(all) || layer.gate.format != &kBf16 || layer.gate.out() != experts ||
      experts > 1024 || top_k > experts || dim % 8 != 0)
    return false;
  for (const Weight& w : all)
    if (!small_weight(w, mode)) return false;
  const bool normed = tokens <= kNormedTokens, merged = normed && tokens * top_k <= 64;
  cuda::SmallMoe p;
  Tensor x;
  const auto carve = [&](void* base) {
    Carver carver(base);
    p.route.logits = carver.take<float>(tokens * experts);
    p.route.weights = carver.take<float>(tokens * top_k);
    p.route.indices = carver.take<std::int32_t>(tokens * top_k);
    p.hidden = carver.take<bf16_bits>(tokens * top_k * layer.w1.out());
    p.shared_hidden = carver.take<bf16_bits>(tokens * layer.shared_w1.out());
    x = Tensor(carver.take<bf16_bits>(tokens * dim), DType::bf16, h.shape(), device());
    if (!merged) p.rows = carver.take<float>(tokens * top_k * dim);
    return carver.used();
  };
  carve(workspace(carve(nullptr)));
  if (!normed) rms_norm(x, h, layer.norm, layer.eps);
  p.tokens = static_cast<int>(tokens);
  p.x = normed ? h.data() : x.data();
  p.x_stride = normed ? h.stride(0) : dim;
  p.gain = normed ? layer.norm.as<float>() : nullptr;
  p.eps = layer.eps;
  p.gate = matrix_of(layer.gate);
  route_args(p.route, layer.bias, layer.route, tokens, experts);
  p.route.logits_stride = experts;
  p.counter = counter();
  p.w1 = matrix_of(layer.w1), p.w2 = matrix_of(layer.w2), p.w3 = matrix_of(layer.w3);
  p.shared_w1 = matrix_of(layer.shared_w1), p.shared_w2 = matrix_of(layer.shared_w2);
  p.shared_w3 = matrix_of(layer.shared_w3);
  p.normed = x.data();
  p.y = h.as<float>();
  p.y_stride = h.stride(0);
  const bool fp8 = layer.w1.format->has_scale();
  cuda::moe_gate(stream(), p);
  p.x = x.data();
  p.x_stride = dim;
  fp8 ? cuda::moe_up_fp8(stream(), p) : cuda::moe_up_bf16(stream(), p);
  fp8 ? cuda::moe_down_fp8(stream(), p) : cuda::moe_down_bf16(stream(), p);
  if (p.rows != nullptr) {
    const Tensor hidden(p.shared_hidden, DType::bf16, {tokens, layer.shared_w1.out()}, device());
    linear_add_(h, hidden, layer.shared_w2, mode);
    cuda::combine_add(stream(), p);
  }
  return true;
}

bool CudaBackend::advance(const Batch& batch, const Tensor& drawn, const Tensor& step, const Tensor& log,
                          i64 block_size) {
  cuda::Advance a{};
  a.ids = batch.ids.as<std::int32_t>();
  a.positions = batch.positions.as<std::int32_t>();
  a.slots = batch.slots.as<std::int32_t>();
  a.context_lens = batch.context_lens.as<std::int32_t>();
  a.block_tables = batch.block_tables.as<std::int32_t>();
  a.table_stride = batch.block_tables.stride(0);
  a.table_width = static_cast<int>(batch.block_tables.dim(1));
  a.block_size = static_cast<int>(block_size);
  a.drawn = drawn.as<std::int32_t>();
  a.step = step.as<i64>();
  a.log = log.as<std::int32_t>();
  a.log_rows = static_cast<int>(log.dim(0) - 1);
  a.count = static_cast<int>(batch.tokens());
  cuda::advance(stream(), a);
  return true;
}

bool CudaBackend::fill_random(const Tensor& x, std::uint64_t seed) {
  cuda::fill_random(stream(), array_of(x), seed);
  return true;
}

}  // namespace fathom
