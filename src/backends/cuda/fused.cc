// The fused forms: for few tokens with bf16 activations and bf16 or FP8 weights.
#include <algorithm>

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/decode.h"
#include "kernels/cuda/linear/kernels.h"
#include "kernels/cuda/rows/rows.h"
#include "kernels/cuda/rows/steps.h"

namespace fathom {
namespace {

// Parts of a workspace, one after another.
class Carver {
 public:
  explicit Carver(void* base) : base_(static_cast<std::byte*>(base)) {}
  template <typename T>
  T* take(i64 count) {
    T* part = reinterpret_cast<T*>(base_ + used_);
    used_ += static_cast<std::size_t>(aligned(count * static_cast<i64>(sizeof(T))));
    return part;
  }
  cuda::CodeRows code_rows(i64 rows, i64 in) {
    return cuda::CodeRows::by_row(take<std::byte>(cuda::CodeRows::bytes(rows, in)), rows, in);
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

bool CudaBackend::try_run(const op::LatentAttention& op) {
  const Tensor &o = op.o, &q = op.q, &kv_pe = op.kv_pe;
  const LatentAttention& args = op.args;
  const CacheLayer& cache = op.cache;
  const Sequences& sequences = op.sequences;
  // Decode: each token is the only one of its sequence.
  const bool few = q.dim(0) == sequences.sequences() ? fused_rows(q.dim(0)) : small_rows(q.dim(0));
  if (!few || !latent_fits(q, cache) || kv_pe.dtype() != DType::bf16 || o.dtype() != DType::bf16 ||
      args.wk_b.dtype() != DType::bf16 || args.wk_b.dim(2) % 8 != 0 || q.dim(2) % 8 != 0 || !aligned_rows(kv_pe))
    return false;
  const i64 tokens = q.dim(0), heads = q.dim(1), c = cache.kv_lora_rank, nope = args.wk_b.dim(2);
  cuda::MlaArgs p = latent_of(gpu_, sequences, cache, heads, args.scale);
  const auto carve = [&](void* base) {
    Carver carver(base);
    auto* q_c = carver.take<bf16_bits>(tokens * heads * c);
    p.q_c = q_c;
    p.o_c = carver.take<bf16_bits>(tokens * heads * c);
    if (p.splits > 1) p.parts = carver.take<float>(tokens * heads * p.splits * c);
    if (p.splits > 1) p.sums = carver.take<float>(tokens * heads * p.splits);
    return carver.used();
  };
  carve(workspace(carve(nullptr)));
  p.nope = static_cast<int>(nope);
  p.q = q.data();
  p.q_stride = q.stride(0);
  p.kv_pe = kv_pe.data();
  p.kv_stride = kv_pe.stride(0);
  p.gain = args.kv_norm.gain.as<float>();
  p.eps = args.kv_norm.eps;
  p.freqs = args.freqs.as<float>();
  p.slots = sequences.slots.as<std::int32_t>();
  p.wk_b.data = args.wk_b.data();
  p.q_c_stride = heads * c;
  p.q_c_head = c;
  p.q_pe = static_cast<const bf16_bits*>(q.data()) + nope;
  p.q_pe_stride = q.stride(0);
  p.q_pe_head = q.stride(1);
  cuda::mla_absorb(stream(), p);
  cuda::mla_attend(stream(), gpu_, p);
  p.wv_b = {args.wv_b.data(), nullptr, cuda::Type::bf16, false, heads, args.wv_b.dim(1), c};
  p.o = o.data();
  p.o_stride = o.stride(0);
  p.o_head = o.stride(1);
  if (args.wv_b.dtype() == DType::bf16 && cuda::mla_values_fit(p)) {
    cuda::mla_values(stream(), p);
    return true;
  }
  cuda::mla_combine(stream(), p);
  run(op::HeadMatmul{o, Tensor(p.o_c, DType::bf16, {tokens, heads, c}, device()), args.wv_b});
  return true;
}

bool CudaBackend::try_run(const op::ExpertsAdd& op) {
  const Tensor& h = op.h;
  const auto& [gate, routed, first, shared_experts] = op.layer;
  const GemmMode mode = op.mode;
  const i64 tokens = h.dim(0), dim = h.dim(1), experts = op.layer.n_local(), top_k = gate.route.top_k;
  const Weight all[] = {routed.w1, routed.w2, routed.w3, shared_experts.w1, shared_experts.w2, shared_experts.w3};
  if (!fused_rows(tokens) || !same_kind(all) || gate.weight.format != &kBf16 || gate.weight.out() != experts ||
      experts > 1024 || top_k > experts || dim % 8 != 0)
    return false;
  for (const Weight& w : all)
    if (!small_weight(w, mode)) return false;
  cuda::MoeArgs p;
  p.tokens = static_cast<int>(tokens);
  p.quantise = quantises(routed.w1, mode);
  p.gate = matrix_of(gate.weight);
  route_args(p.route, gate.bias, gate.route, tokens, experts);
  p.route.logits_stride = experts;
  p.counter = counter();
  p.multiprocessors = gpu_.multiprocessors;
  p.w1 = matrix_of(routed.w1), p.w2 = matrix_of(routed.w2), p.w3 = matrix_of(routed.w3);
  p.shared_w1 = matrix_of(shared_experts.w1), p.shared_w2 = matrix_of(shared_experts.w2);
  p.shared_w3 = matrix_of(shared_experts.w3);
  p.eps = op.norm.eps;
  p.y = h.as<float>();
  p.y_stride = h.stride(0);
  const bool merged = tokens <= 8 && tokens * top_k <= 64;
  carve_experts(p, merged);
  if (tokens <= 8 && cuda::input_fits_shared(gpu_, tokens, dim) && aligned_rows(h)) {
    p.x = h.data();
    p.x_stride = h.stride(0);
    p.gain = op.norm.gain.as<float>();
  } else {
    const Tensor x(p.normed, DType::bf16, h.shape(), device());
    run(op::RmsNorm{x, h, op.norm});
    if (p.quantise) cuda::quantize(stream(), p.x_codes.data, p.x_codes.scale, array_of(x), p.w1.power_of_two);
    p.x = p.normed;
    p.x_stride = dim;
  }
  run_experts(p, routed.w1.format->has_scale());
  if (merged) return true;
  cuda::Product shared;  // the shared experts' second half
  shared.part[0] = {p.shared_w2, p.y, cuda::Type::f32, p.y_stride};
  shared.rows = p.tokens;
  shared.x = p.quantise ? static_cast<const void*>(p.shared_codes.data) : p.shared_hidden;
  shared.x_type = p.quantise ? cuda::Type::e4m3 : cuda::Type::bf16;
  shared.x_scale = p.shared_codes.scale;
  shared.x_stride = p.shared_w2.in;
  shared.add = shared.between_experts = true;
  if (p.shared_w2.out > 0) product(shared);
  cuda::combine_add(stream(), p);
  return true;
}

// The buffers between the kernels of experts_add_.
void CudaBackend::carve_experts(cuda::MoeArgs& p, bool merged) {
  const i64 tokens = p.tokens, top_k = p.route.top_k, dim = p.gate.in, choices = tokens * top_k;
  const auto codes = [](Carver& carver, i64 rows, i64 width) {
    const cuda::CodeRows all = carver.code_rows(rows, width);
    return cuda::MoeArgs::Codes{all.codes, all.scales};
  };
  const auto carve = [&](void* base) {
    Carver carver(base);
    p.route.logits = carver.take<float>(tokens * p.route.experts);
    p.route.weights = carver.take<float>(choices);
    p.route.indices = carver.take<std::int32_t>(choices);
    p.hidden = carver.take<bf16_bits>(choices * p.w1.out);
    p.shared_hidden = carver.take<bf16_bits>(tokens * p.shared_w1.out);
    p.normed = carver.take<bf16_bits>(tokens * dim);
    if (!merged) p.rows = carver.take<float>(choices * dim);
    if (!cuda::routes_in_place(p)) {
      p.experts = carver.take<cuda::MoeArgs::Expert>(cuda::most_chosen(p));
      p.choices = carver.take<std::int32_t>(choices);
    }
    if (!p.quantise) return carver.used();
    p.x_codes = codes(carver, tokens, dim);
    p.shared_codes = codes(carver, tokens, p.shared_w2.in);
    if (!merged || tokens > 1 || !cuda::input_fits_shared(gpu_, 1, top_k * p.w2.in + p.shared_w2.in))
      p.hidden_codes = codes(carver, choices, p.w2.in);
    return carver.used();
  };
  carve(workspace(carve(nullptr)));
}

void CudaBackend::run_experts(cuda::MoeArgs& p, bool fp8) {
  const cudaStream_t s = stream();
  fp8 ? cuda::moe_gate_fp8(s, p) : cuda::moe_gate_bf16(s, p);
  if (p.tokens > 8) cuda::moe_route(s, p);
  p.x = p.normed;
  p.x_stride = p.gate.in;
  fp8 ? cuda::moe_up_fp8(s, p) : cuda::moe_up_bf16(s, p);
  if (p.hidden_codes.data != nullptr) cuda::moe_quantise(s, p);
  fp8 ? cuda::moe_down_fp8(s, p) : cuda::moe_down_bf16(s, p);
}

bool CudaBackend::try_run(const op::Advance& op) {
  const Sequences& all = op.batch.runs.front();
  cuda::Advance a{};
  a.ids = op.batch.ids.as<std::int32_t>();
  a.positions = all.positions.as<std::int32_t>();
  a.slots = all.slots.as<std::int32_t>();
  a.context_lens = all.context_lens.as<std::int32_t>();
  a.block_tables = all.block_tables.as<std::int32_t>();
  a.table_stride = all.block_tables.stride(0);
  a.table_width = static_cast<int>(all.block_tables.dim(1));
  a.block_size = static_cast<int>(op.block_size);
  a.drawn = op.drawn.as<std::int32_t>();
  a.sampling = static_cast<RowSampling*>(op.sampling.rows.data());
  a.log = op.log.as<std::int32_t>();
  a.log_rows = static_cast<int>(op.log.dim(0) - 1);
  a.count = static_cast<int>(op.batch.tokens());
  cuda::advance(stream(), a);
  return true;
}

bool CudaBackend::try_run(const op::FillRandom& op) {
  cuda::fill_random(stream(), array_of(op.x), op.seed);
  return true;
}

}  // namespace fathom
