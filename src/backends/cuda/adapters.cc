// One short function an operation: tensors become the kernels' structs.
#include "backends/cuda/arrays.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/decode.h"
#include "kernels/cuda/rows/rows.h"

namespace fathom {

void CudaBackend::run(const op::Embedding& op) {
  cuda::embedding(stream(), array_of(op.y), array_of(op.table), op.ids.as<std::int32_t>(), op.first);
}

void CudaBackend::run(const op::GatherRows& op) {
  cuda::gather_rows(stream(), array_of(op.y), array_of(op.x), op.rows.as<std::int32_t>());
}

void CudaBackend::run(const op::Copy& op) { cuda::cast(stream(), array_of(op.y), array_of(op.x)); }

void CudaBackend::run(const op::Add& op) { cuda::add(stream(), array_of(op.x), array_of(op.y)); }

void CudaBackend::run(const op::RmsNorm& op) {
  cuda::rms_norm(stream(), array_of(op.y), array_of(op.x), op.norm.gain.as<float>(), op.norm.eps);
}

void CudaBackend::run(const op::SiluMul& op) {
  cuda::silu_mul(stream(), array_of(op.y), array_of(op.a), array_of(op.b));
}

void CudaBackend::run(const op::Dequantize& op) { cuda::dequantize(stream(), array_of(op.y), matrix_of(op.w)); }

void CudaBackend::run(const op::Rope& op) {
  cuda::rope(stream(), array_of(op.x), op.freqs.as<float>(), op.positions.as<std::int32_t>());
}

void CudaBackend::run(const op::StoreLatent& op) {
  cuda::store_latent(stream(), cache_of(op.cache), array_of(op.kv), array_of(op.k_pe), op.slots.as<std::int32_t>());
}

void CudaBackend::run(const op::GatherLatent& op) {
  cuda::gather_latent(stream(), array_of(op.y), cache_of(op.cache), sequences_of(op.sequences));
}

namespace {

// Whether the kernel of tensor cores attends.
bool fits(const op::AttendLatent& op) {
  return op.q_c.dim(0) > 0 && op.q_c.dim(0) < 65536 && latent_fits(op.q_c, op.cache) &&
         op.q_pe.dtype() == DType::bf16 && op.o.dtype() == DType::bf16 && aligned_rows(op.q_c) &&
         op.q_c.stride(1) % 8 == 0;
}

}  // namespace

i64 CudaBackend::scratch_bytes(const op::AttendLatent& op) const {
  if (!fits(op)) return 0;
  return most_part_rows(op.q_c.dim(0), op.q_c.dim(1), gpu().multiprocessors) * (op.cache.kv_lora_rank + 1) * 4;
}

void CudaBackend::run(const op::AttendLatent& op) {
  const auto& [o, q_c, q_pe, cache, sequences, scale] = op;
  if (fits(op)) {
    const i64 heads = q_c.dim(1), rows = q_c.dim(0) * heads, c = cache.kv_lora_rank;
    cuda::MlaArgs p = latent_of(gpu(), sequences, cache, heads, scale);
    p.parts = static_cast<float*>(workspace(scratch_bytes(op)));
    if (p.splits > 1) p.sums = p.parts + rows * p.splits * c;
    p.q_c = q_c.data(), p.q_c_stride = q_c.stride(0), p.q_c_head = q_c.stride(1);
    p.q_pe = q_pe.data(), p.q_pe_stride = q_pe.stride(0), p.q_pe_head = q_pe.stride(1);
    p.o_c = o.data();
    cuda::mla_attend(stream(), p);
    return cuda::mla_combine(stream(), p);
  }
  cuda::attend_latent_simple(stream(), array_of(o), array_of(q_c), array_of(q_pe), cache_of(cache),
                             sequences_of(sequences), scale);
}

void CudaBackend::run(const op::AttendExpanded& op) {
  const auto& [o, q, kv, k_pe, sequences, scale] = op;
  const cuda::Expanded keys{array_of(kv), array_of(k_pe)};
  if (gpu().sm90a && q.dim(0) > 0 && cuda::attend_prompt_fits(array_of(o), array_of(q), keys))
    return cuda::attend_prompt(stream(), array_of(o), array_of(q), keys, sequences_of(sequences), scale);
  cuda::attend_expanded_simple(stream(), array_of(o), array_of(q), keys, sequences_of(sequences), scale);
}

void CudaBackend::run(const op::Route& op) {
  const auto& [weights, indices, logits, bias, args] = op;
  cuda::Route r{};
  r.weights = weights.as<float>();
  r.indices = indices.as<std::int32_t>();
  r.logits = logits.as<float>();
  r.logits_stride = logits.stride(0);
  route_args(r, bias, args, logits.dim(0), logits.dim(1));
  cuda::route(stream(), r);
}

void CudaBackend::run(const op::GroupByExpert& op) {
  const auto& [routed, x, indices, first] = op;
  cuda::Grouping g{};
  g.rows = array_of(routed.rows);
  g.offsets = routed.offsets.as<std::int32_t>();
  g.places = routed.places.as<std::int32_t>();
  g.indices = indices.as<std::int32_t>();
  g.choices = indices.numel();
  g.top_k = static_cast<int>(indices.dim(1));
  g.n_local = static_cast<int>(routed.offsets.dim(0) - 1);
  g.first = first;
  cuda::group_by_expert(stream(), g, array_of(x));
}

void CudaBackend::run(const op::Combine& op) {
  const Tensor& places = op.routed.places;
  cuda::combine(stream(), array_of(op.y), array_of(op.rows), places.as<std::int32_t>(), op.weights.as<float>(),
                static_cast<int>(places.dim(1)));
}

void CudaBackend::run(const op::Sample& op) {
  const SampleArgs& args = op.args;
  cuda::Sampling p = sampling_of(op.ids, op.logits);
  p.params = static_cast<const RowSampling*>(args.rows.data());
  p.seen = args.seen.defined() ? args.seen.as<std::uint8_t>() : nullptr;
  p.seen_stride = args.seen.defined() ? args.seen.stride(0) : 0;
  cuda::sample(stream(), p);
}

void CudaBackend::run(const op::MarkNotFinite& op) { cuda::mark_not_finite(stream(), sampling_of(op.ids, op.logits)); }

void CudaBackend::run(const op::AllReduce&) { fail("{}: ranks on GPUs are not built yet", name()); }

void CudaBackend::run(const op::AddReduced&) { fail("{}: ranks on GPUs are not built yet", name()); }

void CudaBackend::run(const op::AllGather&) { fail("{}: ranks on GPUs are not built yet", name()); }

}  // namespace fathom
