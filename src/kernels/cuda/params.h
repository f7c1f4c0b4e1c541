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

// Where each token of a pass stands: see ops/types.h, Batch.
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
void attend_expanded_simple(cudaStream_t s, const Array& o, const Array& q, const Expanded& keys,
                            const Sequences& seqs, float scale);

// ---- experts (experts.cu) ----
struct Route {
  float* weights;          // [T, top_k]
  std::int32_t* indices;   // [T, top_k]
  const float* logits;     // [T, E]
  i64 logits_stride;
  const float* bias;       // [E] or null
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

}  // namespace fathom::cuda
