// Attention over the latent cache. See rows.h for the conventions.
#pragma once

#include <span>
#include <vector>

#include "ops/products.h"

namespace fathom {

// How attention is computed. Named after the reference's attn_impl.
enum class AttnImpl : std::uint8_t {
  absorb,  // queries go into the latent space, except where a sequence has many new tokens
  naive,   // keys and values of each head are expanded from the latent cache
};

// The cache of one layer.
struct CacheLayer {
  Tensor latent;  // [blocks, block_size, kv_lora_rank + qk_rope_head_dim]: normalised latent, then rotated key
  i64 kv_lora_rank = 0;

  i64 block_size() const { return latent.dim(1); }
  i64 width() const { return latent.dim(2); }
};

// Consecutive sequences of a pass that attend in the same way: T tokens of S sequences. int32 on the device.
struct Sequences {
  Tensor positions;       // [T] position of each token in its sequence, from 0
  Tensor slots;           // [T] row of the cache for each token: block * block_size + offset; -1 writes nothing
  Tensor seq_starts;      // [S + 1] tokens seq_starts[s] .. seq_starts[s + 1] belong to sequence s; the first is 0
  Tensor context_lens;    // [S] cached tokens of each sequence, this pass's included
  Tensor context_starts;  // [S + 1] running sum of context_lens
  Tensor block_tables;    // [S, max_blocks] cache blocks of each sequence, in order; unused entries are never read
  i64 first_token = 0;    // of the pass
  i64 total_context = 0;  // context_starts[S], or a bound of it: known to the host, which sizes buffers by it
  i64 max_context = 0;    // the longest context, or a bound of it
  bool expanded = false;  // keys and values of each head are made from the latent cache; else queries become latent

  i64 tokens() const { return positions.dim(0); }
  i64 sequences() const { return context_lens.dim(0); }
  void each(auto&& f) { f(positions), f(slots), f(seq_starts), f(context_lens), f(context_starts), f(block_tables); }
};

// What attention over the latent cache needs besides queries, keys and sequences. Either wkv_b is given, or its two
// parts.
struct LatentAttention {
  Norm kv_norm;  // [kv_lora_rank]
  Tensor freqs;  // float32 [max_seq_len, rope / 2, 2]
  float scale = 1;
  Weight wkv_b;  // [H * (nope + v), kv_lora_rank]
  Tensor wk_b;   // [H, kv_lora_rank, nope]: the key part transposed
  Tensor wv_b;   // [H, v, kv_lora_rank]
};

namespace op {

// Rotates neighbouring pairs (x[2i], x[2i + 1]) as complex numbers by freqs[position, i] (cos, sin), in place.
// x [T, H, r] strided in T and H, act; freqs f32 [max_seq_len, r / 2, 2]; positions int32 [T].
struct Rope {
  Tensor x, freqs, positions;
  static constexpr const char* kName = "rope_";
  void each(auto&& f) { f(x), f(freqs), f(positions); }
};

// Writes kv [T, kv_lora_rank] and k_pe [T, rope] (both strided, act) into the cache rows slots [T].
struct StoreLatent {
  CacheLayer cache;
  Tensor kv, k_pe, slots;
  static constexpr const char* kName = "store_latent";
  void each(auto&& f) { f(cache.latent), f(kv), f(k_pe), f(slots); }
};

// o [T, H, c] = softmax(scale * (q_c . latent + q_pe . key)) latent over the token's sequence up to its own position.
// q_c [T, H, c], q_pe [T, H, r]: strided in T and H; o contiguous.
struct AttendLatent {
  Tensor o, q_c, q_pe;
  CacheLayer cache;
  Sequences sequences;
  float scale = 1;
  static constexpr const char* kName = "attend_latent";
  void each(auto&& f) { f(o), f(q_c), f(q_pe), f(cache.latent), sequences.each(f); }
};

// y [total_context, width] = the cached rows of all sequences, one after another.
struct GatherLatent {
  Tensor y;
  CacheLayer cache;
  Sequences sequences;
  static constexpr const char* kName = "gather_latent";
  void each(auto&& f) { f(y), f(cache.latent), sequences.each(f); }
};

// o [T, H, v] = softmax(scale * q . k) v. q [T, H, nope + rope]; kv [total_context, H, nope + v] holds each head's
// key part and value; k_pe [total_context, rope] is shared by the heads. All strided.
struct AttendExpanded {
  Tensor o, q, kv, k_pe;
  Sequences sequences;
  float scale = 1;
  static constexpr const char* kName = "attend_expanded";
  void each(auto&& f) { f(o), f(q), f(kv), f(k_pe), sequences.each(f); }
};

// Optional: absorbed attention o [T, H, v] of q [T, H, nope + rope], not rotated, over the cache after the new tokens'
// rows kv_pe [T, kv_lora_rank + rope], neither normalised nor rotated, are stored in it. May rotate q.
struct LatentAttention {
  Tensor o, q, kv_pe;
  const fathom::LatentAttention& args;
  CacheLayer cache;
  const Sequences& sequences;
  static constexpr const char* kName = "latent_attention";
  void each(auto&& f) const { f(o), f(q), f(kv_pe), f(cache.latent); }
};

}  // namespace op

namespace ops {

// Rotates q [T, H, nope + rope] and the new keys, stores the rows kv_pe [T, kv_lora_rank + rope] of the new tokens in
// the cache, and attends: [T, H, v]. q may be changed.
Tensor attention(Context& ctx, const Tensor& q, const Tensor& kv_pe, const LatentAttention& args,
                 const CacheLayer& cache, std::span<const Sequences> runs);

// Keys that are expanded at a time, unless one sequence has more.
inline constexpr i64 kExpandedKeys = 16384;

// A run of sequences by numbers: sequences first .. first + count, their tokens, and their contexts.
struct RunShape {
  i64 first = 0, count = 0, first_token = 0, tokens = 0, total_context = 0, max_context = 0;
  bool expanded = false;
};
// How the sequences of a pass attend: the one place where latent and expanded attention are chosen. seq_starts [S + 1],
// context_lens [S] as in Sequences, of the whole pass. Sequences with `expand_from` new tokens or more are expanded:
// Backend::expand_from, or 0 for the naive form.
std::vector<RunShape> attention_runs(std::span<const std::int32_t> seq_starts,
                                     std::span<const std::int32_t> context_lens, i64 expand_from);

}  // namespace ops
}  // namespace fathom
