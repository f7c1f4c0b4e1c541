// Attention: rotation, the paged latent cache, and the driver of both forms over spans of keys (attend.h).
#include <algorithm>
#include <cstring>

#include "backends/cpu/act.h"
#include "backends/cpu/attend.h"
#include "backends/cpu/cpu_backend.h"

namespace fathom {
namespace {

// Row (a, b) of a [A, B, n] tensor (or row a of [A, n], with B = 1).
void* row_of(const Tensor& x, i64 a, i64 b) {
  const i64 offset = a * x.stride(0) + (x.rank() == 3 ? b * x.stride(1) : 0);
  return static_cast<std::byte*>(x.data()) + offset * size_of(x.dtype());
}

void* cache_row(const CacheLayer& cache, i64 slot) {
  return static_cast<std::byte*>(cache.latent.data()) + slot * cache.width() * size_of(cache.latent.dtype());
}

// Row of the cache that holds position `position` of sequence `sequence`.
void* cached(const CacheLayer& cache, const Sequences& s, i64 sequence, i64 position) {
  const auto* table = s.block_tables.as<std::int32_t>() + sequence * s.block_tables.stride(0);
  const i64 size = cache.block_size();
  return cache_row(cache, table[position / size] * size + position % size);
}

}  // namespace

void CpuBackend::run(const op::Rope& op) {
  const Tensor& x = op.x;
  const i64 tokens = x.dim(0), heads = x.rank() == 3 ? x.dim(1) : 1, pairs = x.dim(x.rank() - 1) / 2;
  const auto* position = op.positions.as<std::int32_t>();
  visit_act(x, [&](auto* typed) {
    parallel(tokens * heads, pairs * 4, [&](i64 begin, i64 end, int) {
      for (i64 item = begin; item < end; ++item) {
        const i64 t = item / heads;
        auto* row = static_cast<decltype(typed)>(row_of(x, t, item % heads));
        const float* angle = op.freqs.as<float>() + position[t] * pairs * 2;
        for (i64 i = 0; i < pairs; ++i) {
          const float re = widen(row[2 * i]), im = widen(row[2 * i + 1]);
          store(row[2 * i], re * angle[2 * i] - im * angle[2 * i + 1]);
          store(row[2 * i + 1], re * angle[2 * i + 1] + im * angle[2 * i]);
        }
      }
    });
  });
}

void CpuBackend::run(const op::StoreLatent& op) {
  const CacheLayer& cache = op.cache;
  const Tensor &kv = op.kv, &k_pe = op.k_pe;
  const auto* slot = op.slots.as<std::int32_t>();
  const Element type = element_of(cache.latent.dtype()), kv_type = element_of(kv.dtype());
  const Element pe_type = element_of(k_pe.dtype());
  const i64 c = cache.kv_lora_rank, r = cache.width() - c;
  parallel(kv.dim(0), cache.width() / 4, [&](i64 begin, i64 end, int worker) {
    float* row = scratch(worker, cache.width());
    for (i64 t = begin; t < end; ++t) {
      if (slot[t] < 0) continue;
      kernels_.widen(row, row_of(kv, t, 0), kv_type, c);
      kernels_.widen(row + c, row_of(k_pe, t, 0), pe_type, r);
      kernels_.narrow(cache_row(cache, slot[t]), type, row, c + r);
    }
  });
}

void CpuBackend::run(const op::GatherLatent& op) {
  const CacheLayer& cache = op.cache;
  const Sequences& sequences = op.sequences;
  const Rows out(op.y);
  const auto* starts = sequences.context_starts.as<std::int32_t>();
  const Element from = element_of(cache.latent.dtype()), to = element_of(out.dtype);
  for (i64 s = 0; s < sequences.sequences(); ++s)
    parallel(starts[s + 1] - starts[s], cache.width() / 4, [&](i64 begin, i64 end, int worker) {
      float* row = scratch(worker, cache.width());
      for (i64 j = begin; j < end; ++j) {
        kernels_.widen(row, cached(cache, sequences, s, j), from, cache.width());
        kernels_.narrow(out.row(starts[s] + j), to, row, cache.width());
      }
    });
}

void CpuBackend::attend(const Tensor& o, const Sequences& sequences, i64 heads_together, const AttendForm& form) {
  const AttendPlan plan(sequences, o.dim(1), heads_together, kernels_, form);
  parallel(o.dim(0) - plan.tokens(), o.dim(1), [&](i64 begin, i64 end, int) {  // padding after the last sequence
    for (i64 t = plan.tokens() + begin; t < plan.tokens() + end; ++t)
      std::memset(row_of(o, t, 0), 0, static_cast<std::size_t>(o.dim(1) * o.dim(2) * size_of(o.dtype())));
  });
  const auto finish = [&](const QueryBlock& block, const SoftmaxSums& sums) {
    kernels_.finish_sums(sums, block.rows());
    for (i64 m = 0; m < block.rows(); ++m)
      kernels_.narrow(row_of(o, block.token_of(m), block.head_of(m)), element_of(o.dtype()), sums.o + m * sums.o_step,
                      o.dim(2));
  };
  const auto blocks = static_cast<i64>(plan.blocks().size());
  if (blocks >= 2 * pool_.size() || plan.runs() == blocks) {
    parallel(blocks, plan.work() / std::max<i64>(blocks, 1), [&](i64 begin, i64 end, int worker) {
      float* space = scratch(worker, plan.sums_floats() * 2 + plan.scratch_floats());
      for (i64 b = begin; b < end; ++b) {
        const QueryBlock& block = plan.blocks()[static_cast<std::size_t>(b)];
        const SoftmaxSums total = plan.empty_sums(space);
        plan.attend_run(block, 0, total, space + 2 * plan.sums_floats());
        for (i64 r = 1; r < block.runs(); ++r) {
          const SoftmaxSums run = plan.empty_sums(space + plan.sums_floats());
          plan.attend_run(block, r, run, space + 2 * plan.sums_floats());
          kernels_.merge_sums(total, run, block.rows());
        }
        finish(block, total);
      }
    });
    return;
  }
  // Few queries with long contexts: the runs of one block go to different threads and are merged in the same order. So
  // many blocks at a time that their sums take little memory.
  constexpr i64 kMostRuns = 256;
  i64 first_run = 0;
  for (auto block = plan.blocks().begin(); block != plan.blocks().end();) {
    const auto first = block;
    i64 count = 0;
    do count += block->runs();
    while (++block != plan.blocks().end() && count + block->runs() <= kMostRuns);
    float* sums = scratch(-1, count * plan.sums_floats());
    parallel(count, plan.work() / plan.runs(), [&](i64 begin, i64 end, int worker) {
      float* space = scratch(worker, plan.scratch_floats());
      for (i64 i = begin; i < end; ++i) {
        const auto& [of, run] = plan.run(first_run + i);
        plan.attend_run(plan.blocks()[of], run, plan.empty_sums(sums + i * plan.sums_floats()), space);
      }
    });
    i64 next = 0;
    std::for_each(first, block, [&](const QueryBlock& done) {
      const SoftmaxSums total = plan.sums_at(sums + next++ * plan.sums_floats());
      for (i64 r = 1; r < done.runs(); ++r)
        kernels_.merge_sums(total, plan.sums_at(sums + next++ * plan.sums_floats()), done.rows());
      finish(done, total);
    });
    first_run += count;
  }
}

void CpuBackend::run(const op::AttendLatent& op) {
  const Tensor &q_c = op.q_c, &q_pe = op.q_pe;
  const CacheLayer& cache = op.cache;
  const Sequences& sequences = op.sequences;
  const i64 c = cache.kv_lora_rank, width = cache.width(), step = padded_step(width);
  const Element type = element_of(cache.latent.dtype());
  AttendForm form;
  form.key_width = width;
  form.value_width = c;
  form.scale = op.scale;
  form.values_are_keys = true;
  form.load_query = [&](float* row, i64 t, i64 h) {
    kernels_.widen(row, row_of(q_c, t, h), element_of(q_c.dtype()), c);
    kernels_.widen(row + c, row_of(q_pe, t, h), element_of(q_pe.dtype()), width - c);
  };
  form.load_keys = [&](float* keys, float*, const QueryBlock& block, i64 first, i64 count) {
    for (i64 j = 0; j < count; ++j)
      kernels_.widen(keys + j * step, cached(cache, sequences, block.sequence, first + j), type, width);
  };
  attend(op.o, sequences, q_c.dim(1), form);
}

void CpuBackend::run(const op::AttendExpanded& op) {
  const Tensor &q = op.q, &kv = op.kv, &k_pe = op.k_pe;
  const i64 v = op.o.dim(2), nope = kv.dim(2) - v, width = q.dim(2), step = padded_step(width), v_step = padded_step(v);
  const auto* starts = op.sequences.context_starts.as<std::int32_t>();
  const Element type = element_of(kv.dtype()), pe_type = element_of(k_pe.dtype());
  AttendForm form;
  form.key_width = width;
  form.value_width = v;
  form.scale = op.scale;
  form.load_query = [&](float* row, i64 t, i64 h) {
    kernels_.widen(row, row_of(q, t, h), element_of(q.dtype()), width);
  };
  form.load_keys = [&](float* keys, float* values, const QueryBlock& block, i64 first, i64 count) {
    for (i64 j = 0; j < count; ++j) {
      const i64 row = starts[block.sequence] + first + j;
      const auto* data = static_cast<const std::byte*>(row_of(kv, row, block.first_head));
      kernels_.widen(keys + j * step, data, type, nope);
      kernels_.widen(keys + j * step + nope, row_of(k_pe, row, 0), pe_type, width - nope);
      kernels_.widen(values + j * v_step, data + nope * size_of(kv.dtype()), type, v);
    }
  };
  attend(op.o, op.sequences, 1, form);
}

}  // namespace fathom
