// The CPU kernels on plain pointers: one table of functions for each instruction set, chosen at run time.
//
// All arithmetic is float32. The sums of an output never depend on how many other rows or columns a call has, so a
// row's result is the same bits alone and in company.
#pragma once

#include <cstdint>
#include <span>

namespace fathom {

using i64 = std::int64_t;

enum class Isa : std::uint8_t { generic, avx2, avx512 };

// Types of numbers that kernels read and write.
enum class Element : std::uint8_t { f32, bf16, e4m3 };

// Rows of float32 that kernels read are padded with zeros to a multiple of this.
inline constexpr i64 kRowPad = 16;

// Distance of padded float32 rows of `width`, kept off multiples of 4 KiB, which would share cache sets.
constexpr i64 padded_step(i64 width) {
  const i64 step = (width + kRowPad - 1) / kRowPad * kRowPad;
  return step % 256 == 0 ? step + kRowPad : step;
}

// A matrix [out, in] with contiguous rows.
struct WeightRows {
  const void* data;
  i64 step;  // bytes from one row to the next
  Element type;
  const float* scales;  // e4m3: value = code * scales[row / 128 * scale_step + column / 128]
  i64 scale_step;
};

// y [rows, count] = x [rows, in] w[first .. first + count]^T; rows at most kGemmRows.
struct GemmArgs {
  const float* x;  // padded rows
  i64 x_step;      // floats
  i64 rows, in;
  WeightRows w;
  i64 first, count;
  void* y;     // column `first` of the output's first row: f32 or bf16
  i64 y_step;  // bytes
  Element y_type;
  float* scratch;  // kGemmScratch floats
};

inline constexpr i64 kGemmRows = 256;
inline constexpr i64 kGemmColumns = 48;  // columns worked on together; calls are best cut in multiples of it
inline constexpr i64 kGemmDepth = 1024;  // sums are cut here, so that operands stay in cache
inline constexpr i64 kGemmScratch = kGemmColumns * (kGemmDepth + kRowPad) + kGemmRows * kGemmColumns;

// Attention of some queries to a span of keys: softmax weights without the division by their sum.
inline constexpr i64 kSpanKeys = 128;

struct SpanArgs {
  const float* q;  // [rows, k_step] padded
  const float* k;  // [keys, k_step] padded
  i64 k_step;
  const float* v;  // [keys, v_step], readable up to o_step
  i64 v_step;
  i64 rows, keys;               // keys at most kSpanKeys
  const std::int32_t* visible;  // [rows] keys of this span that the query sees: the first ones; may be 0 or less
  float scale;
  float* scores;  // scratch [rows, kSpanKeys]
};

// A softmax in the making for some queries.
struct SoftmaxSums {
  float* top;  // [rows] largest score so far; -infinity: no key yet
  float* sum;  // [rows]
  float* o;    // [rows, o_step]
  i64 o_step;  // a multiple of kRowPad
};

struct CpuKernels {
  // Rows of n numbers.
  void (*widen)(float* y, const void* x, Element type, i64 n);   // f32 or bf16
  void (*narrow)(void* y, Element type, const float* x, i64 n);  // f32 or bf16
  // One row of a weight as float32, exact but for the one rounding of code * scale.
  void (*decode_row)(float* y, const WeightRows& w, i64 row, i64 n);
  void (*add)(float* y, const float* x, i64 n);                       // y += x
  void (*add_scaled)(float* y, const float* x, float factor, i64 n);  // y += factor * x
  void (*rms_norm)(float* y, const float* x, const float* weight, i64 n, float eps);
  void (*silu_mul)(float* y, const float* gate, const float* up, i64 n);
  // codes [n], scales [n / 128]; the same bits as quantize_activation.
  void (*quantize)(std::uint8_t* codes, float* scales, const float* x, i64 n, bool power_of_two);

  void (*gemm)(const GemmArgs& args);

  void (*attend_span)(const SpanArgs& args, const SoftmaxSums& out);
  // to = to and from taken together.
  void (*merge_sums)(const SoftmaxSums& to, const SoftmaxSums& from, i64 rows);
  // o /= sum; zeros for a query without keys.
  void (*finish_sums)(const SoftmaxSums& sums, i64 rows);
};

// The best instruction set of this machine, and all that it has.
Isa best_isa();
bool has_isa(Isa isa);
const char* name_of(Isa isa);

// The kernels of an instruction set, which the machine must have.
const CpuKernels& cpu_kernels(Isa isa);

// One function an instruction set: each in a file of its own with its own compiler flags.
const CpuKernels& generic_kernels();
const CpuKernels& avx2_kernels();
const CpuKernels& avx512_kernels();

}  // namespace fathom
