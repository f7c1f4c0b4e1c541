// The CUDA kernels as plain functions: pointers and sizes in, work enqueued on a stream, nothing returned. What each
// computes is stated in ops/backend.h under the same name; shapes here are [dim[0], dim[1], dim[2]].
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace fathom::cuda {

using i64 = std::int64_t;

enum class Type : std::uint8_t { f32, bf16, e4m3, i32, other };

// A view of numbers on the device; strides in elements, the last dimension contiguous.
struct Array {
  void* data = nullptr;
  Type type = Type::f32;
  int rank = 0;
  i64 dim[4] = {};
  i64 stride[4] = {};
};

// A matrix [out, in], or a stack of `count` of them, contiguous; f32, bf16, or e4m3 with one scale per 128 x 128 block.
struct Matrix {
  const void* data = nullptr;
  const float* scale = nullptr;  // [count, ceil(out / 128), ceil(in / 128)] or null
  Type type = Type::bf16;
  bool power_of_two = false;  // of activation scales, in products of codes
  i64 count = 1, out = 0, in = 0;
};

// Rows of activations: values, or e4m3 codes with a float32 scale per 128 entries.
struct Operand {
  Array x;                       // [N, in]
  const float* scale = nullptr;  // [N, in / 128] or null
};

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

// ---- rows (rows.cu) ----
void embedding(cudaStream_t s, const Array& y, const Array& table, const std::int32_t* ids, i64 first);
void gather_rows(cudaStream_t s, const Array& y, const Array& x, const std::int32_t* rows);
void cast(cudaStream_t s, const Array& y, const Array& x);
void add(cudaStream_t s, const Array& x, const Array& y);
void rms_norm(cudaStream_t s, const Array& y, const Array& x, const float* weight, float eps);
void silu_mul(cudaStream_t s, const Array& y, const Array& a, const Array& b);
void quantize(cudaStream_t s, std::uint8_t* codes, float* scales, const Array& x, bool power_of_two);
void dequantize(cudaStream_t s, const Array& y, const Matrix& w);

// ---- products (gemm_simple.cu): any shape and type, the twin that faster ones are compared with ----
void linear_simple(cudaStream_t s, const Array& y, const Operand& x, const Matrix& w);
// offsets [count + 1]: rows offsets[e] .. offsets[e + 1] of x belong to matrix e.
void grouped_linear_simple(cudaStream_t s, const Array& y, const Operand& x, const Matrix& w,
                           const std::int32_t* offsets);
void head_matmul_simple(cudaStream_t s, const Array& y, const Array& x, const Array& w);

// ---- products of many rows on tensor cores (gemm_tile.cu): x bf16, w bf16 or e4m3, rows aligned to 16 bytes ----
void linear_tile(cudaStream_t s, const Array& y, const Array& x, const Matrix& w);
void grouped_linear_tile(cudaStream_t s, const Array& y, const Array& x, const Matrix& w, const std::int32_t* offsets);
void head_matmul_tile(cudaStream_t s, const Array& y, const Array& x, const Array& w);
// x = bf16(code * scale), for products of codes through them.
void round_to_fp8(cudaStream_t s, void* y, const Array& x, bool power_of_two);

// ---- products of many rows on Hopper (hopper*.cu) ----
// A device whose code in this build is sm_90a's. `encode` is the driver's cuTensorMapEncodeTiled, null elsewhere.
struct Hopper {
  void* encode = nullptr;
  int multiprocessors = 0;
};
Hopper find_hopper(int index);
void* tile_map_encoder();
// y = x w^T, grouped by expert (offsets) or by head (count > 1), or plain.
struct WideProduct {
  const void* x = nullptr;  // bf16 [rows, heads, in], or e4m3 with x_scale
  i64 x_stride = 0, x_head = 0;
  const float* x_scale = nullptr;  // [in / 128, x_scale_stride]: the scales of each 128 columns together
  i64 x_scale_stride = 0;          // a multiple of 4
  Matrix w;                        // bf16 or e4m3
  bool w_transposed = false;       // bf16 [count, in, 128]
  void* y = nullptr;               // [rows, heads, out]
  Type y_type = Type::bf16;
  i64 y_stride = 0, y_head = 0;
  i64 rows = 0;
  const std::int32_t* offsets = nullptr;
  bool add = false;  // y += instead of y =; float32 only
};
bool wide_fits(const WideProduct& p);
void wide(cudaStream_t s, const Hopper& device, const WideProduct& p);

// ---- many rows, 16 bytes at a time (rows_wide.cu); false where rows are not aligned to that, or few ----
bool rms_norm_wide(cudaStream_t s, const Array& y, const Array& x, const float* weight, float eps);
bool silu_mul_wide(cudaStream_t s, const Array& y, const Array& a, const Array& b);
bool combine_wide(cudaStream_t s, const Array& y, const Array& rows, const std::int32_t* places, const float* weights,
                  int top_k);
// As quantize, of bf16 rows aligned to 16 bytes, with scales [d / 128, stride].
void quantize_wide(cudaStream_t s, std::uint8_t* codes, float* scales, i64 stride, const Array& x, bool power_of_two);

// ---- products of 1 to 64 rows (linear_small_*.cu) ----
// y = x w^T for up to three matrices of one input, or for one matrix a head. Rows of x and w are aligned to 16 bytes.
struct SmallLinear {
  struct Part {
    Matrix w;
    void* y;  // [tokens, heads, out]
    Type y_type;
    i64 y_stride;
  };
  Part part[3];
  int parts = 1, tokens = 0, heads = 1;
  const void* x = nullptr;  // [tokens, heads, in]: bf16; float32 with gain; e4m3 with x_scale
  i64 x_stride = 0;
  i64 x_head = 0, w_head = 0, y_head = 0;  // steps from head to head
  const float* x_scale = nullptr;          // [tokens, in / 128]
  // With one of these x, of at most 8 tokens, is made ready in shared memory: see stage_fits.
  const float* gain = nullptr;  // [in]: x is RMS-normalised first
  float eps = 0;
  bool quantise = false;  // bf16 x, or the normalised one, becomes codes with a scale per 128 entries
  bool add = false;       // y += instead of y =
};
// Whether rows of `in` entries fit in the shared memory that products may take for them.
bool stage_fits(i64 tokens, i64 in);
void linear_small_bf16(cudaStream_t s, const SmallLinear& p);
void linear_small_fp8(cudaStream_t s, const SmallLinear& p);

// ---- attention (attention_simple.cu) ----
void rope(cudaStream_t s, const Array& x, const float* freqs, const std::int32_t* positions);
void store_latent(cudaStream_t s, const Cache& cache, const Array& kv, const Array& k_pe, const std::int32_t* slots);
void gather_latent(cudaStream_t s, const Array& y, const Cache& cache, const Sequences& seqs);
void attend_latent_simple(cudaStream_t s, const Array& o, const Array& q_c, const Array& q_pe, const Cache& cache,
                          const Sequences& seqs, float scale);
// kv [total_context, H, nope + v]; k_pe [total_context, rope].
struct Expanded {
  Array kv, k_pe;
};
void attend_expanded_simple(cudaStream_t s, const Array& o, const Array& q, const Expanded& keys, const Sequences& seqs,
                            float scale);

// The same on Hopper, of bf16 with 128 + 64 key and 128 value entries a head (hopper_attend.cu).
bool attend_prompt_fits(const Array& o, const Array& q, const Expanded& keys);
void attend_prompt(cudaStream_t s, const Hopper& device, const Array& o, const Array& q, const Expanded& keys,
                   const Sequences& seqs, float scale);

// ---- attention of few tokens over the latent cache (mla_*.cu): kv_lora_rank 512, rope 64, bf16 ----
struct SmallMla {
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
  static constexpr int kMostSplits = 132;
  int splits = 1;       // of the context at most
  void* o_c = nullptr;  // bf16 [tokens, heads, 512]
  Matrix wv_b;          // bf16 [heads, v, 512]
  void* o = nullptr;    // bf16 [tokens, heads, v]
  i64 o_stride = 0, o_head = 0;
};
void mla_absorb(cudaStream_t s, const SmallMla& p);   // cache rows of the new tokens; q_c = q_nope wk_b
void mla_attend(cudaStream_t s, const SmallMla& p);   // o_c where there is one part; else parts and sums
void mla_combine(cudaStream_t s, const SmallMla& p);  // o_c from parts and sums, if there are several parts
// o = o_c wv_b from parts and sums at once, where they are few.
bool mla_values_fit(const SmallMla& p);
void mla_values(cudaStream_t s, const SmallMla& p);

// ---- experts (experts.cu) ----
struct Route {
  float* weights;         // [T, top_k]
  std::int32_t* indices;  // [T, top_k]
  const float* logits;    // [T, E]
  i64 logits_stride;
  const float* bias;  // [E] or null
  i64 tokens;
  int experts, top_k, n_groups, top_k_groups;
  bool sigmoid, normalize;
  float route_scale;
};
void route(cudaStream_t s, const Route& r);
// rows [T * top_k, d], offsets [n_local + 1], places [T, top_k]; x [T, d]; this rank owns experts first .. first + n.
struct Grouping {
  Array rows;
  std::int32_t* offsets;
  std::int32_t* places;
  const std::int32_t* indices;
  i64 choices;
  int top_k, n_local;
  i64 first;
};
void group_by_expert(cudaStream_t s, const Grouping& g, const Array& x);
void combine(cudaStream_t s, const Array& y, const Array& rows, const std::int32_t* places, const float* weights,
             int top_k);

// ---- the experts' half of a block for few tokens (moe_*.cu) ----
// Everything stays on the device: the host knows no choice.
struct SmallMoe {
  int tokens = 0;
  const void* x = nullptr;  // [tokens, dim]: bf16, or float32 with gain
  i64 x_stride = 0;
  const float* gain = nullptr;  // [dim]: x is RMS-normalised first, where stage_fits
  float eps = 0;
  Matrix gate;                             // bf16 [E, dim]
  Route route;                             // logits, weights and indices are scratch
  std::int32_t* counter = nullptr;         // 0 between kernels
  Matrix w1, w2, w3;                       // [n_local, inter, dim], [n_local, dim, inter], as w1
  i64 first = 0;                           // of this rank's experts
  Matrix shared_w1, shared_w2, shared_w3;  // [shared, dim], [dim, shared], as w1; out 0: none
  void* normed = nullptr;                  // bf16 [tokens, dim]: where moe_gate leaves the normalised x, with gain
  float* rows = nullptr;          // [tokens * top_k, dim]: moe_down leaves the experts' rows here, if given; else it
                                  // adds everything to y (at most 8 tokens with 64 choices)
  void* hidden = nullptr;         // bf16 [tokens * top_k, inter]
  void* shared_hidden = nullptr;  // bf16 [tokens, shared]
  float* y = nullptr;             // [tokens, dim]: the result is added
  i64 y_stride = 0;
  // The chosen experts of this rank in order, -1 from there on, and the choices (token * top_k + k) of each, from
  // moe_gate or moe_route; not for a token that is routed in place.
  struct Expert {
    std::int32_t expert, first, count, unused;  // its choices are choices[first .. first + count)
  };
  Expert* experts = nullptr;        // [most_chosen]
  std::int32_t* choices = nullptr;  // [tokens * top_k]
  // Where activations are quantised: codes and scales of x, of hidden (null: moe_down makes them), of shared_hidden.
  struct Codes {
    std::uint8_t* data = nullptr;
    float* scale = nullptr;
  };
  bool quantise = false;
  Codes x_codes, hidden_codes, shared_codes;
};
// Blocks route the only token themselves: nothing waits for one that does.
bool routes_in_place(const SmallMoe& p);
int most_chosen(const SmallMoe& p);  // experts that so many tokens can have chosen
// Logits and the shared experts' hidden values; with up to 8 tokens the routing too. Leaves x as normed or x_codes,
// with gain.
void moe_gate_bf16(cudaStream_t s, const SmallMoe& p);
void moe_gate_fp8(cudaStream_t s, const SmallMoe& p);
void moe_route(cudaStream_t s, const SmallMoe& p);  // for more than 8 tokens, after moe_gate
// moe_up takes x as bf16 or x_codes.
void moe_up_bf16(cudaStream_t s, const SmallMoe& p);
void moe_up_fp8(cudaStream_t s, const SmallMoe& p);
void moe_down_bf16(cudaStream_t s, const SmallMoe& p);
void moe_down_fp8(cudaStream_t s, const SmallMoe& p);
// hidden_codes and shared_codes of hidden and shared_hidden.
void moe_quantise(cudaStream_t s, const SmallMoe& p);
// y [T, d] += sum over k of weights[t, k] * rows[t * top_k + k], for experts of this rank.
void combine_add(cudaStream_t s, const SmallMoe& p);

// ---- sampling (sample.cu) ----
struct Sampling {
  std::int32_t* ids;    // [N]
  const float* logits;  // [N, vocab]
  i64 logits_stride;
  int rows, vocab;
  const float *temperature, *top_p, *min_p, *penalty;  // [N]
  const std::int32_t* top_k;                           // [N]
  const std::int64_t *seed, *step;                     // [N]
  const std::uint8_t* seen;                            // [N, seen_stride] or null
  i64 seen_stride;
};
void sample(cudaStream_t s, const Sampling& args);
// ids[i] = -1 where row i of logits holds NaN or infinity (finite.cu)
void mark_not_finite(cudaStream_t s, const Sampling& args);

// ---- between steps (steps.cu) ----
// See ops/sampling.h, advance.
struct Advance {
  std::int32_t *ids, *positions, *slots, *context_lens;  // [count]
  const std::int32_t* block_tables;                      // [count, table_stride]
  i64 table_stride;
  int table_width, block_size;
  const std::int32_t* drawn;  // [count]
  std::int64_t* step;         // [count]
  std::int32_t* log;          // [1 + log_rows, count]
  int log_rows, count;
};
void advance(cudaStream_t s, const Advance& a);
void fill_random(cudaStream_t s, const Array& x, std::uint64_t seed);

}  // namespace fathom::cuda
