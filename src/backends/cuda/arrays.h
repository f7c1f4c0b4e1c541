// Tensors, weights and batches as the kernels' plain structs.
#pragma once

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/linear/code_rows.h"
#include "kernels/cuda/rows/sampling.h"
#include "ops/operations.h"
#include "quant/fp8_block.h"

namespace fathom {

inline cuda::Type type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return cuda::Type::f32;
    case DType::bf16:
      return cuda::Type::bf16;
    case DType::e4m3:
      return cuda::Type::e4m3;
    case DType::i32:
      return cuda::Type::i32;
    default:
      return cuda::Type::other;
  }
}

inline cuda::Array array_of(const Tensor& x) {
  cuda::Array a;
  a.data = x.data();
  a.type = type_of(x.dtype());
  a.rank = x.rank();
  for (int d = 0; d < x.rank(); ++d) {
    a.dim[d] = x.dim(d);
    a.stride[d] = x.stride(d);
  }
  return a;
}

inline cuda::Matrix matrix_of(const Weight& w) {
  return {w.data.data(),
          w.scale.defined() ? w.scale.as<float>() : nullptr,
          type_of(w.data.dtype()),
          w.format->power_of_two(),
          w.data.rank() == 3 ? w.data.dim(0) : 1,
          w.out(),
          w.in()};
}

inline cuda::Sequences sequences_of(const Sequences& all) {
  cuda::Sequences s{};
  s.positions = all.positions.as<std::int32_t>();
  s.seq_starts = all.seq_starts.as<std::int32_t>();
  s.context_lens = all.context_lens.as<std::int32_t>();
  s.context_starts = all.context_starts.as<std::int32_t>();
  s.block_tables = all.block_tables.as<std::int32_t>();
  s.table_stride = all.block_tables.stride(0);
  s.count = static_cast<int>(all.sequences());
  s.tokens = all.tokens();
  s.max_context = all.max_context;
  s.total_context = all.total_context;
  return s;
}

// Without the choices of each row.
inline cuda::Sampling sampling_of(const Tensor& ids, const Tensor& logits) {
  cuda::Sampling s{};
  s.ids = ids.as<std::int32_t>();
  s.logits = logits.as<float>();
  s.logits_stride = logits.stride(0);
  s.rows = static_cast<int>(logits.dim(0));
  s.vocab = static_cast<int>(logits.dim(1));
  return s;
}

// Whether a product takes its rows as codes.
inline bool quantises(const Weight& w, GemmMode mode) { return mode == GemmMode::fp8 && w.format->has_scale(); }
// The same of these rows, which must consist of whole units then.
inline bool quantises(const Weight& w, GemmMode mode, const Tensor& x) {
  if (!quantises(w, mode)) return false;
  CHECK(x.dim(1) % kFp8Block == 0, "Last dimension size must be divisible by block_size (block_size={}), it is {}",
        kFp8Block, x.dim(1));
  return true;
}

using cuda::aligned;

inline cuda::Cache cache_of(const CacheLayer& cache) {
  return {cache.latent.data(), type_of(cache.latent.dtype()), static_cast<int>(cache.block_size()),
          static_cast<int>(cache.width()), static_cast<int>(cache.kv_lora_rank)};
}

}  // namespace fathom
