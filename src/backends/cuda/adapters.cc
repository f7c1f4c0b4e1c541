// One short function an operation: tensors become the kernels' structs.
#include "backends/cuda/arrays.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/small.h"
#include "kernels/cuda/params.h"

namespace fathom {

void CudaBackend::embedding(const Tensor& y, const Tensor& table, const Tensor& ids, i64 first) {
  cuda::embedding(stream(), array_of(y), array_of(table), ids.as<std::int32_t>(), first);
}

void CudaBackend::gather_rows(const Tensor& y, const Tensor& x, const Tensor& rows) {
  cuda::gather_rows(stream(), array_of(y), array_of(x), rows.as<std::int32_t>());
}

void CudaBackend::cast(const Tensor& y, const Tensor& x) { cuda::cast(stream(), array_of(y), array_of(x)); }

void CudaBackend::add_(const Tensor& x, const Tensor& y) { cuda::add(stream(), array_of(x), array_of(y)); }

void CudaBackend::rms_norm(const Tensor& y, const Tensor& x, const Tensor& weight, float eps) {
  cuda::rms_norm(stream(), array_of(y), array_of(x), weight.as<float>(), eps);
}

void CudaBackend::silu_mul(const Tensor& y, const Tensor& a, const Tensor& b) {
  cuda::silu_mul(stream(), array_of(y), array_of(a), array_of(b));
}

void CudaBackend::dequantize(const Tensor& y, const Weight& w, const Tensor& /*rows*/) {
  cuda::dequantize(stream(), array_of(y), matrix_of(w));
}

void CudaBackend::quantize(const Tensor& codes, const Tensor& scales, const Tensor& x, bool power_of_two) {
  cuda::quantize(stream(), codes.as<e4m3_bits>(), scales.as<float>(), array_of(x), power_of_two);
}

void CudaBackend::rope_(const Tensor& x, const Tensor& freqs, const Tensor& positions) {
  cuda::rope(stream(), array_of(x), freqs.as<float>(), positions.as<std::int32_t>());
}

void CudaBackend::store_latent(const CacheLayer& cache, const Tensor& kv, const Tensor& k_pe, const Tensor& slots) {
  cuda::store_latent(stream(), cache_of(cache), array_of(kv), array_of(k_pe), slots.as<std::int32_t>());
}

void CudaBackend::gather_latent(const Tensor& y, const CacheLayer& cache, const Batch& batch) {
  cuda::gather_latent(stream(), array_of(y), cache_of(cache), sequences_of(batch));
}

void CudaBackend::attend_latent(const Tensor& o, const Tensor& q_c, const Tensor& q_pe, const CacheLayer& cache,
                                const Batch& batch, float scale) {
  if (q_c.dim(0) > 0 && q_c.dim(0) < 65536 && latent_fits(q_c, cache) && q_pe.dtype() == DType::bf16 &&
      o.dtype() == DType::bf16 && aligned_rows(q_c) && q_c.stride(1) % 8 == 0) {
    const i64 heads = q_c.dim(1), rows = q_c.dim(0) * heads, c = cache.kv_lora_rank;
    cuda::SmallMla p = latent_of(batch, cache, heads, scale);
    if (p.splits > 1) p.parts = static_cast<float*>(workspace(static_cast<std::size_t>(rows * p.splits * (c + 1) * 4)));
    if (p.splits > 1) p.sums = p.parts + rows * p.splits * c;
    p.q_c = q_c.data(), p.q_c_stride = q_c.stride(0), p.q_c_head = q_c.stride(1);
    p.q_pe = q_pe.data(), p.q_pe_stride = q_pe.stride(0), p.q_pe_head = q_pe.stride(1);
    p.o_c = o.data();
    cuda::mla_attend(stream(), p);
    return cuda::mla_combine(stream(), p);
  }
  cuda::attend_latent_simple(stream(), array_of(o), array_of(q_c), array_of(q_pe), cache_of(cache), sequences_of(batch),
                             scale);
}

void CudaBackend::attend_expanded(const Tensor& o, const Tensor& q, const Tensor& kv, const Tensor& k_pe,
                                  const Batch& batch, float scale) {
  const cuda::Expanded keys{array_of(kv), array_of(k_pe)};
  if (hopper_.encode != nullptr && q.dim(0) > 0 && cuda::attend_prompt_fits(array_of(o), array_of(q), keys))
    return cuda::attend_prompt(stream(), hopper_, array_of(o), array_of(q), keys, sequences_of(batch), scale);
  cuda::attend_expanded_simple(stream(), array_of(o), array_of(q), keys, sequences_of(batch), scale);
}

void CudaBackend::route(const Tensor& weights, const Tensor& indices, const Tensor& logits, const Tensor& bias,
                        const RouteArgs& args) {
  cuda::Route r{};
  r.weights = weights.as<float>();
  r.indices = indices.as<std::int32_t>();
  r.logits = logits.as<float>();
  r.logits_stride = logits.stride(0);
  route_args(r, bias, args, logits.dim(0), logits.dim(1));
  CHECK(args.top_k <= logits.dim(1), "{} experts are too few for the asked choice", logits.dim(1));
  cuda::route(stream(), r);
}

void CudaBackend::group_by_expert(const Routed& routed, const Tensor& x, const Tensor& indices, i64 first) {
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

void CudaBackend::combine(const Tensor& y, const Tensor& rows, const Routed& routed, const Tensor& weights) {
  cuda::combine(stream(), array_of(y), array_of(rows), routed.places.as<std::int32_t>(), weights.as<float>(),
                static_cast<int>(routed.places.dim(1)));
}

void CudaBackend::sample(const Tensor& ids, const Tensor& logits, const SampleArgs& args) {
  cuda::Sampling p = sampling_of(ids, logits);
  p.temperature = args.temperature.as<float>();
  p.top_p = args.top_p.as<float>();
  p.min_p = args.min_p.as<float>();
  p.penalty = args.repetition_penalty.as<float>();
  p.top_k = args.top_k.as<std::int32_t>();
  p.seed = args.seed.as<i64>();
  p.step = args.step.as<i64>();
  p.seen = args.seen.defined() ? args.seen.as<std::uint8_t>() : nullptr;
  p.seen_stride = args.seen.defined() ? args.seen.stride(0) : 0;
  cuda::sample(stream(), p);
}

void CudaBackend::mark_not_finite(const Tensor& ids, const Tensor& logits) {
  cuda::mark_not_finite(stream(), sampling_of(ids, logits));
}

}  // namespace fathom
