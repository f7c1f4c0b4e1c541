// The fused forms: for few tokens with bf16 activations and bf16 or FP8 weights.
#include <algorithm>

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/decode.h"
#include "kernels/cuda/errors.h"
#include "kernels/cuda/linear/kernels.h"
#include "kernels/cuda/rows/rows.h"
#include "kernels/cuda/rows/steps.h"

namespace fathom {
namespace {

// Parts of scratch, one after another. Without a base it counts.
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
  i64 used() const { return static_cast<i64>(used_); }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

bool same_kind(std::span<const Weight> ws) {
  return std::all_of(ws.begin(), ws.end(), [&](const Weight& w) { return w.data.dtype() == ws[0].data.dtype(); });
}

bool fits(const op::LatentAttention& op) {
  const Tensor &q = op.q, &wk_b = op.args.wk_b;
  // Decode: each token is the only one of its sequence.
  const bool few = q.dim(0) == op.sequences.sequences() ? fused_rows(q.dim(0)) : small_rows(q.dim(0));
  return few && latent_fits(q, op.cache) && op.kv_pe.dtype() == DType::bf16 && op.o.dtype() == DType::bf16 &&
         wk_b.dtype() == DType::bf16 && wk_b.dim(2) % 8 == 0 && q.dim(2) % 8 == 0 && aligned_rows(op.kv_pe);
}

i64 carve(cuda::MlaArgs& p, const cuda::Device& gpu, void* base) {
  const i64 rows = static_cast<i64>(p.tokens) * p.heads, c = p.cache.rank,
            parts = most_part_rows(p.tokens, p.heads, gpu.multiprocessors);
  Carver carver(base);
  p.q_c = carver.take<bf16_bits>(rows * c);
  p.o_c = carver.take<bf16_bits>(rows * c);
  p.parts = carver.take<float>(parts * c);
  p.sums = carver.take<float>(parts);
  return carver.used();
}

bool fits(const op::Experts& op) {
  const auto& [gate, routed, first, shared] = op.layer;
  const Weight all[] = {routed.w1, routed.w2, routed.w3, shared.w1, shared.w2, shared.w3};
  const i64 experts = gate.weight.out();
  return fused_rows(op.h.dim(0)) && op.h.dtype() == DType::f32 && same_kind(all) && gate.weight.format == &kBf16 &&
         experts <= 1024 && op.layer.n_local() > 0 && op.h.dim(1) % 8 == 0 &&
         std::all_of(std::begin(all), std::end(all), [&](const Weight& w) { return small_weight(w, op.mode); });
}

// At most so many choices of a few tokens are added up where they are made.
bool merged(const cuda::MoeArgs& p) { return p.tokens <= 8 && p.tokens * p.route.top_k <= 64; }

cuda::MoeArgs args_of(const op::Experts& op) {
  const auto& [gate, routed, first, shared] = op.layer;
  cuda::MoeArgs p;
  p.tokens = static_cast<int>(op.h.dim(0));
  p.quantise = quantises(routed.w1, op.mode);
  p.gate = matrix_of(gate.weight);
  route_args(p.route, gate.bias, gate.route, p.tokens, gate.weight.out());
  p.route.logits_stride = gate.weight.out();
  p.first = first;
  p.w1 = matrix_of(routed.w1), p.w2 = matrix_of(routed.w2), p.w3 = matrix_of(routed.w3);
  p.shared_w1 = matrix_of(shared.w1), p.shared_w2 = matrix_of(shared.w2), p.shared_w3 = matrix_of(shared.w3);
  p.eps = op.norm.eps;
  p.y = op.y.as<float>();
  p.y_stride = op.y.stride(0);
  return p;
}

// The buffers between the kernels of experts.
i64 carve(cuda::MoeArgs& p, const cuda::Device& gpu, void* base) {
  const i64 tokens = p.tokens, top_k = p.route.top_k, dim = p.gate.in, choices = tokens * top_k;
  Carver carver(base);
  const auto codes = [&](i64 rows, i64 width) {
    const cuda::CodeRows all = carver.code_rows(rows, width);
    return cuda::MoeArgs::Codes{all.codes, all.scales};
  };
  p.route.logits = carver.take<float>(tokens * p.route.experts);
  p.route.weights = carver.take<float>(choices);
  p.route.indices = carver.take<std::int32_t>(choices);
  p.hidden = carver.take<bf16_bits>(choices * p.w1.out);
  p.shared_hidden = carver.take<bf16_bits>(tokens * p.shared_w1.out);
  p.normed = carver.take<bf16_bits>(tokens * dim);
  if (!merged(p)) p.rows = carver.take<float>(choices * dim);
  if (!cuda::routes_in_place(p)) {
    p.experts = carver.take<cuda::MoeArgs::Expert>(cuda::most_chosen(p));
    p.choices = carver.take<std::int32_t>(choices);
  }
  if (!p.quantise) return carver.used();
  p.x_codes = codes(tokens, dim);
  p.shared_codes = codes(tokens, p.shared_w2.in);
  if (!merged(p) || tokens > 1 || !cuda::input_fits_shared(gpu, 1, top_k * p.w2.in + p.shared_w2.in))
    p.hidden_codes = codes(choices, p.w2.in);
  return carver.used();
}

}  // namespace

std::optional<i64> CudaBackend::scratch_bytes(const op::LatentAttention& op) const {
  if (!fits(op)) return std::nullopt;
  cuda::MlaArgs p = latent_of(gpu(), op.sequences, op.cache, op.q.dim(1), op.args.scale);
  return carve(p, gpu(), nullptr);
}

void CudaBackend::run(const op::LatentAttention& op) {
  const Tensor &o = op.o, &q = op.q, &kv_pe = op.kv_pe;
  const LatentAttention& args = op.args;
  const i64 tokens = q.dim(0), heads = q.dim(1), c = op.cache.kv_lora_rank, nope = args.wk_b.dim(2);
  cuda::MlaArgs p = latent_of(gpu(), op.sequences, op.cache, heads, args.scale);
  carve(p, gpu(), workspace(*scratch_bytes(op)));
  p.nope = static_cast<int>(nope);
  p.q = q.data();
  p.q_stride = q.stride(0);
  p.kv_pe = kv_pe.data();
  p.kv_stride = kv_pe.stride(0);
  p.gain = args.kv_norm.gain.as<float>();
  p.eps = args.kv_norm.eps;
  p.freqs = args.freqs.as<float>();
  p.slots = op.sequences.slots.as<std::int32_t>();
  p.wk_b.data = args.wk_b.data();
  p.q_c_stride = heads * c;
  p.q_c_head = c;
  p.q_pe = static_cast<const bf16_bits*>(q.data()) + nope;
  p.q_pe_stride = q.stride(0);
  p.q_pe_head = q.stride(1);
  cuda::mla_absorb(stream(), p);
  cuda::mla_attend(stream(), p);
  p.wv_b = {args.wv_b.data(), nullptr, cuda::Type::bf16, false, heads, args.wv_b.dim(1), c};
  p.o = o.data();
  p.o_stride = o.stride(0);
  p.o_head = o.stride(1);
  if (args.wv_b.dtype() == DType::bf16 && cuda::mla_values_fit(p)) {
    return cuda::mla_values(stream(), p);
  }
  cuda::mla_combine(stream(), p);
  run(op::HeadMatmul{o, Tensor(p.o_c, DType::bf16, {tokens, heads, c}, device()), args.wv_b});
}

std::optional<i64> CudaBackend::scratch_bytes(const op::Experts& op) const {
  if (!fits(op)) return std::nullopt;
  cuda::MoeArgs p = args_of(op);
  return carve(p, gpu(), nullptr);
}

void CudaBackend::run(const op::Experts& op) {
  const Tensor& h = op.h;
  const i64 tokens = h.dim(0), dim = h.dim(1);
  cuda::MoeArgs p = args_of(op);
  p.counter = counter();
  carve(p, gpu(), workspace(*scratch_bytes(op)));
  if (!op.add)
    check_cuda(cudaMemsetAsync(p.y, 0, static_cast<std::size_t>(op.y.bytes()), stream()), "clear the experts' sum");
  if (tokens <= 8 && cuda::input_fits_shared(gpu(), tokens, dim) && aligned_rows(h)) {
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
  run_experts(p, op.layer.experts.w1.format->has_scale());
  if (merged(p)) return;
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
}

void CudaBackend::run_experts(cuda::MoeArgs& p, bool fp8) {
  cuda::Stream& s = stream();
  fp8 ? cuda::moe_gate_fp8(s, p) : cuda::moe_gate_bf16(s, p);
  if (p.tokens > 8) cuda::moe_route(s, p);
  p.x = p.normed;
  p.x_stride = p.gate.in;
  fp8 ? cuda::moe_up_fp8(s, p) : cuda::moe_up_bf16(s, p);
  if (p.hidden_codes.data != nullptr) cuda::moe_quantise(s, p);
  fp8 ? cuda::moe_down_fp8(s, p) : cuda::moe_down_bf16(s, p);
}

std::optional<i64> CudaBackend::scratch_bytes(const op::Advance&) const { return 0; }

void CudaBackend::run(const op::Advance& op) {
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
}

void CudaBackend::run(const op::FillRandom& op) { cuda::fill_random(stream(), array_of(op.x), op.seed); }

}  // namespace fathom
