// When the kernels for few tokens apply, and their arguments.
#pragma once

#include <algorithm>

#include "backends/cuda/arrays.h"
#include "kernels/cuda/moe/moe.h"

namespace fathom {

inline bool small_rows(i64 rows) { return rows >= 1 && rows <= 64; }
// Of attention in decode steps, and of experts.
inline bool fused_rows(i64 rows) { return rows >= 1 && rows <= 256; }
// Rows that can be read 16 bytes at a time.
inline bool aligned_rows(const Tensor& x) {
  const i64 step = 16 / size_of(x.dtype());
  return x.stride(0) % step == 0 && reinterpret_cast<std::uintptr_t>(x.data()) % 16 == 0;
}

// bf16, or FP8 whose activations stay as they are or have whole units to quantise.
inline bool small_weight(const Weight& w, GemmMode mode) {
  if (!w.data.defined() || reinterpret_cast<std::uintptr_t>(w.data.data()) % 16 != 0) return false;
  if (w.data.dtype() == DType::bf16) return w.in() % 8 == 0;
  return w.data.dtype() == DType::e4m3 && w.in() % (mode == GemmMode::fp8 ? 128 : 16) == 0;
}

// The published latent width in bf16.
inline bool latent_fits(const Tensor& q, const CacheLayer& cache) {
  return cache.kv_lora_rank == 512 && cache.width() == 576 && cache.latent.dtype() == DType::bf16 &&
         q.dtype() == DType::bf16;
}

// Into how many parts contexts of up to `longest` keys are divided when there are `blocks` of them. Costs in the time
// of a key tile: the rounds of tiles, a multiprocessor working on one after the other, or on two blocks that have one
// each; then the addition of the parts, which are written and read again.
// At most this many parts for each multiprocessor: more would gain less than a sixteenth, and their scratch is bounded.
constexpr i64 kPartsOfProcessor = 16;
inline int splits_of(i64 blocks, i64 longest, i64 processors) {
  constexpr i64 kTile = 64, kMost = cuda::MlaArgs::kMostSplits;
  const i64 tiles = std::max<i64>((longest + kTile - 1) / kTile, 1);
  double least = 1e30;
  i64 best = 1;
  for (i64 s = 1; s <= std::min({tiles, processors, kMost}); ++s) {
    if (s > 1 && blocks * s > kPartsOfProcessor * processors) break;
    const i64 each = (tiles + s - 1) / s, at_once = each == 1 ? processors * 3 / 2 : processors;
    const auto written = static_cast<double>(blocks * s) / processors;
    const double rounds = static_cast<double>((blocks * s + at_once - 1) / at_once * each);
    const double cost = rounds + (s > 1 ? 1 + 0.5 * written + static_cast<double>(s) / 32 : 0);
    if (cost < least) least = cost, best = s;
  }
  return static_cast<int>(best);
}

// Rows of parts at most, whatever the contexts: a row for each of a block's heads. Never less for more tokens.
inline i64 most_part_rows(i64 tokens, i64 heads, i64 processors) {
  const i64 blocks = tokens * ((heads + 15) / 16), splits = std::min<i64>(processors, cuda::MlaArgs::kMostSplits);
  return std::min(blocks * splits, kPartsOfProcessor * processors) * std::min<i64>(heads, 16);
}

inline cuda::MlaArgs latent_of(const cuda::Device& gpu, const Sequences& sequences, const CacheLayer& cache, i64 heads,
                               float scale) {
  cuda::MlaArgs p;
  p.tokens = static_cast<int>(sequences.tokens());
  p.heads = static_cast<int>(heads);
  p.cache = cache_of(cache);
  p.seqs = sequences_of(sequences);
  p.scale = scale;
  p.splits = splits_of(sequences.tokens() * ((heads + 15) / 16), sequences.max_context, gpu.multiprocessors);
  return p;
}

inline void route_args(cuda::Route& r, const Tensor& bias, const RouteArgs& args, i64 tokens, i64 experts) {
  r.bias = bias.defined() ? bias.as<float>() : nullptr;
  r.tokens = tokens;
  r.experts = static_cast<int>(experts);
  r.top_k = static_cast<int>(args.top_k);
  r.n_groups = static_cast<int>(args.n_groups);
  r.top_k_groups = static_cast<int>(args.top_k_groups);
  r.sigmoid = args.sigmoid;
  r.normalize = args.normalize;
  r.route_scale = args.route_scale;
}

}  // namespace fathom
