// Attention: rotary positions, the latent cache, and attention over it or over expanded keys and values.
#pragma once

#include "kernels/cuda/array.h"
#include "kernels/cuda/device.h"

namespace fathom::cuda {

// Where each token of a pass stands: see ops/attention.h, Sequences.
struct Sequences {
  const std::int32_t* positions;       // [T]
  const std::int32_t* seq_starts;      // [S + 1]
  const std::int32_t* context_lens;    // [S]
  const std::int32_t* context_starts;  // [S + 1]
  const std::int32_t* block_tables;    // [S, table_stride]
  i64 table_stride = 0;
  int count = 0;  // S
  i64 tokens = 0;
  i64 max_context = 0, total_context = 0;
};

// The latent cache of one layer: [blocks * block_size, width].
struct Cache {
  void* data = nullptr;
  Type type = Type::bf16;
  int block_size = 0, width = 0, rank = 0;  // rank: kv_lora_rank
};

void rope(Stream& s, const Array& x, const float* freqs, const std::int32_t* positions);
void store_latent(Stream& s, const Cache& cache, const Array& kv, const Array& k_pe, const std::int32_t* slots);
void gather_latent(Stream& s, const Array& y, const Cache& cache, const Sequences& seqs);
void attend_latent_simple(Stream& s, const Array& o, const Array& q_c, const Array& q_pe, const Cache& cache,
                          const Sequences& seqs, float scale);
// kv [total_context, H, nope + v]; k_pe [total_context, rope].
struct Expanded {
  Array kv, k_pe;
};
void attend_expanded_simple(Stream& s, const Array& o, const Array& q, const Expanded& keys, const Sequences& seqs,
                            float scale);

// The same on Hopper, of bf16 with 128 + 64 key and 128 value entries a head (sm90/attend_prompt.cu).
bool attend_prompt_fits(const Array& o, const Array& q, const Expanded& keys);
void attend_prompt(Stream& s, const Array& o, const Array& q, const Expanded& keys, const Sequences& seqs, float scale);

// ---- absorbed attention of decode steps over the latent cache (mla_*.cu): kv_lora_rank 512, rope 64, bf16 ----
struct MlaArgs {
  int tokens = 0, heads = 0, nope = 0, v = 0;
  void* q = nullptr;  // bf16 [tokens, heads, nope + 64], not rotated; may be read only
  i64 q_stride = 0;
  const void* kv_pe = nullptr;  // bf16 [tokens, 512 + 64], neither normalised nor rotated
  i64 kv_stride = 0;
  const float* gain = nullptr;  // [512] of the latent's norm
  float eps = 0;
  const float* freqs = nullptr;  // [max_seq_len, 32, 2]; null: q is rotated and the cache written already
  const std::int32_t* slots = nullptr;
  Matrix wk_b;  // bf16 [heads, 512, nope]
  Cache cache;
  Sequences seqs;
  float scale = 0;
  const void* q_c = nullptr;  // bf16 [tokens, heads, 512]; written by mla_absorb
  i64 q_c_stride = 0, q_c_head = 0;
  const void* q_pe = nullptr;  // bf16 [tokens, heads, 64]
  i64 q_pe_stride = 0, q_pe_head = 0;
  float *parts = nullptr, *sums = nullptr;  // scratch: [tokens, heads, splits, 512], [tokens, heads, splits]
  static constexpr int kMostSplits = 256;
  int splits = 1;       // of the context at most
  void* o_c = nullptr;  // bf16 [tokens, heads, 512]
  Matrix wv_b;          // bf16 [heads, v, 512]
  void* o = nullptr;    // bf16 [tokens, heads, v]
  i64 o_stride = 0, o_head = 0;
};
void mla_absorb(Stream& s, const MlaArgs& p);  // cache rows of the new tokens; q_c = q_nope wk_b
void mla_attend(Stream& s,
                const MlaArgs& p);              // o_c where there is one part; else parts and sums
void mla_combine(Stream& s, const MlaArgs& p);  // o_c from parts and sums, if there are several parts
// o = o_c wv_b from parts and sums at once, where they are few.
bool mla_values_fit(const MlaArgs& p);
void mla_values(Stream& s, const MlaArgs& p);

}  // namespace fathom::cuda
