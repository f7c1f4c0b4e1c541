// Rotation, the paged latent cache, and both forms of attention.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backends/cpu/act.h"
#include "backends/cpu/cpu_backend.h"

namespace fathom {
namespace {

// Row (a, b) of a [A, B, n] tensor (or row a of [A, n], with B = 1).
void* row_of(const Tensor& x, i64 a, i64 b) {
  const i64 offset = a * x.stride(0) + (x.rank() == 3 ? b * x.stride(1) : 0);
  return static_cast<std::byte*>(x.data()) + offset * size_of(x.dtype());
}

float element(const void* row, DType dtype, i64 i) {
  return dtype == DType::f32 ? static_cast<const float*>(row)[i] : bf16_to_float(static_cast<const bf16_bits*>(row)[i]);
}

void widen_row(float* y, const void* row, DType dtype, i64 n) {
  for (i64 i = 0; i < n; ++i) y[i] = element(row, dtype, i);
}

void store_row(void* row, DType dtype, const float* x, i64 n) {
  visit_act(Tensor(row, dtype, {n}), [&](auto* y) {
    for (i64 i = 0; i < n; ++i) store(y[i], x[i]);
  });
}

// The sequence of each token, and its number of visible keys; -1 and 0 for padding after the last sequence.
struct Span {
  i64 sequence = -1, keys = 0;
};

std::vector<Span> token_spans(const Batch& batch) {
  std::vector<Span> spans(static_cast<std::size_t>(batch.tokens()));
  const auto* starts = batch.seq_starts.as<std::int32_t>();
  const auto* lens = batch.context_lens.as<std::int32_t>();
  const auto* positions = batch.positions.as<std::int32_t>();
  for (i64 s = 0; s < batch.sequences(); ++s)
    for (i64 t = starts[s]; t < starts[s + 1]; ++t)
      spans[static_cast<std::size_t>(t)] = {s, std::min<i64>(positions[t] + 1, lens[s])};
  return spans;
}

// Softmax in place over n scores; n > 0.
void softmax(float* scores, i64 n) {
  const float top = *std::max_element(scores, scores + n);
  float sum = 0;
  for (i64 j = 0; j < n; ++j) sum += scores[j] = std::exp(scores[j] - top);
  for (i64 j = 0; j < n; ++j) scores[j] /= sum;
}

float dot(const float* q, const void* row, DType dtype, i64 n) {
  float sum = 0;
  for (i64 i = 0; i < n; ++i) sum += q[i] * element(row, dtype, i);
  return sum;
}

void* cache_row(const CacheLayer& cache, i64 slot) {
  return static_cast<std::byte*>(cache.latent.data()) + slot * cache.width() * size_of(cache.latent.dtype());
}

// Row of the cache that holds position `position` of sequence `sequence`.
void* cached(const CacheLayer& cache, const Batch& batch, i64 sequence, i64 position) {
  const auto* table = batch.block_tables.as<std::int32_t>() + sequence * batch.block_tables.stride(0);
  const i64 size = cache.block_size();
  return cache_row(cache, table[position / size] * size + position % size);
}

}  // namespace

void CpuBackend::rope_(const Tensor& x, const Tensor& freqs, const Tensor& positions) {
  const i64 tokens = x.dim(0), heads = x.rank() == 3 ? x.dim(1) : 1, pairs = x.dim(x.rank() - 1) / 2;
  const auto* position = positions.as<std::int32_t>();
  visit_act(x, [&](auto* typed) {
    parallel(tokens * heads, pairs * 4, [&](i64 begin, i64 end, int) {
      for (i64 item = begin; item < end; ++item) {
        const i64 t = item / heads;
        auto* row = static_cast<decltype(typed)>(row_of(x, t, item % heads));
        const float* angle = freqs.as<float>() + position[t] * pairs * 2;
        for (i64 i = 0; i < pairs; ++i) {
          const float re = widen(row[2 * i]), im = widen(row[2 * i + 1]);
          store(row[2 * i], re * angle[2 * i] - im * angle[2 * i + 1]);
          store(row[2 * i + 1], re * angle[2 * i + 1] + im * angle[2 * i]);
        }
      }
    });
  });
}

void CpuBackend::store_latent(const CacheLayer& cache, const Tensor& kv, const Tensor& k_pe, const Tensor& slots) {
  const auto* slot = slots.as<std::int32_t>();
  const DType type = cache.latent.dtype();
  const i64 c = cache.kv_lora_rank, r = cache.width() - c;
  parallel(kv.dim(0), cache.width(), [&](i64 begin, i64 end, int worker) {
    float* row = scratch(worker, cache.width());
    for (i64 t = begin; t < end; ++t) {
      if (slot[t] < 0) continue;
      widen_row(row, row_of(kv, t, 0), kv.dtype(), c);
      widen_row(row + c, row_of(k_pe, t, 0), k_pe.dtype(), r);
      store_row(cache_row(cache, slot[t]), type, row, c + r);
    }
  });
}

void CpuBackend::attend_latent(const Tensor& o, const Tensor& q_c, const Tensor& q_pe, const CacheLayer& cache,
                               const Batch& batch, float scale) {
  const i64 heads = q_c.dim(1), c = cache.kv_lora_rank, width = cache.width();
  const DType type = cache.latent.dtype();
  const std::vector<Span> spans = token_spans(batch);
  parallel(q_c.dim(0) * heads, 2 * width * batch.max_context, [&](i64 begin, i64 end, int worker) {
    float* q = scratch(worker, width + c + batch.max_context);
    float *sum = q + width, *scores = sum + c;
    for (i64 item = begin; item < end; ++item) {
      const i64 t = item / heads, h = item % heads;
      const auto [sequence, keys] = spans[static_cast<std::size_t>(t)];
      std::fill(sum, sum + c, 0.0f);
      widen_row(q, row_of(q_c, t, h), q_c.dtype(), c);
      widen_row(q + c, row_of(q_pe, t, h), q_pe.dtype(), width - c);
      for (i64 j = 0; j < keys; ++j) scores[j] = scale * dot(q, cached(cache, batch, sequence, j), type, width);
      if (keys > 0) softmax(scores, keys);
      for (i64 j = 0; j < keys; ++j) {
        const void* latent = cached(cache, batch, sequence, j);
        for (i64 i = 0; i < c; ++i) sum[i] += scores[j] * element(latent, type, i);
      }
      store_row(row_of(o, t, h), o.dtype(), sum, c);
    }
  });
}

void CpuBackend::gather_latent(const Tensor& y, const CacheLayer& cache, const Batch& batch) {
  const Rows out(y);
  const auto* starts = batch.context_starts.as<std::int32_t>();
  for (i64 s = 0; s < batch.sequences(); ++s)
    parallel(starts[s + 1] - starts[s], cache.width(), [&](i64 begin, i64 end, int worker) {
      float* row = scratch(worker, cache.width());
      for (i64 j = begin; j < end; ++j) {
        widen_row(row, cached(cache, batch, s, j), cache.latent.dtype(), cache.width());
        store_row(out.row(starts[s] + j), out.dtype, row, cache.width());
      }
    });
}

void CpuBackend::attend_expanded(const Tensor& o, const Tensor& q, const Tensor& kv, const Tensor& k_pe,
                                 const Batch& batch, float scale) {
  const i64 heads = q.dim(1), v = o.dim(2), nope = kv.dim(2) - v, rope = q.dim(2) - nope;
  const auto* starts = batch.context_starts.as<std::int32_t>();
  const std::vector<Span> spans = token_spans(batch);
  parallel(q.dim(0) * heads, 2 * q.dim(2) * batch.max_context, [&](i64 begin, i64 end, int worker) {
    float* query = scratch(worker, nope + rope + v + batch.max_context);
    float *sum = query + nope + rope, *scores = sum + v;
    for (i64 item = begin; item < end; ++item) {
      const i64 t = item / heads, h = item % heads;
      const auto [sequence, keys] = spans[static_cast<std::size_t>(t)];
      const i64 first = sequence < 0 ? 0 : starts[sequence];
      std::fill(sum, sum + v, 0.0f);
      widen_row(query, row_of(q, t, h), q.dtype(), nope + rope);
      for (i64 j = 0; j < keys; ++j)
        scores[j] = scale * (dot(query, row_of(kv, first + j, h), kv.dtype(), nope) +
                             dot(query + nope, row_of(k_pe, first + j, 0), k_pe.dtype(), rope));
      if (keys > 0) softmax(scores, keys);
      for (i64 j = 0; j < keys; ++j) {
        const void* row = row_of(kv, first + j, h);
        for (i64 i = 0; i < v; ++i) sum[i] += scores[j] * element(row, kv.dtype(), nope + i);
      }
      store_row(row_of(o, t, h), o.dtype(), sum, v);
    }
  });
}

}  // namespace fathom
