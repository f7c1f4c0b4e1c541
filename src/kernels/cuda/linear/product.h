// Products.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/array.h"

namespace fathom::cuda {

// Rows of activations: values, or e4m3 codes with a float32 scale per 128 entries.
struct Operand {
  Array x;                       // [N, in]
  const float* scale = nullptr;  // [N, in / 128] or null
};

// ---- products (simple.cu): any shape and type, the twin that faster ones are compared with ----
void linear_simple(cudaStream_t s, const Array& y, const Operand& x, const Matrix& w);
// offsets [count + 1]: rows offsets[e] .. offsets[e + 1] of x belong to matrix e.
void grouped_linear_simple(cudaStream_t s, const Array& y, const Operand& x, const Matrix& w,
                           const std::int32_t* offsets);
// transposed: w [h, in, out].
void head_matmul_simple(cudaStream_t s, const Array& y, const Array& x, const Array& w, bool transposed);

// ---- products of many rows on tensor cores (mma.cu): x bf16, w bf16 or e4m3, rows aligned to 16 bytes ----
void linear_tile(cudaStream_t s, const Array& y, const Array& x, const Matrix& w);
void grouped_linear_tile(cudaStream_t s, const Array& y, const Array& x, const Matrix& w, const std::int32_t* offsets);
void head_matmul_tile(cudaStream_t s, const Array& y, const Array& x, const Array& w);
// x = bf16(code * scale), for products of codes through them.
void round_to_fp8(cudaStream_t s, void* y, const Array& x, bool power_of_two);

// ---- products of many rows on Hopper (sm90/gemm*.cu) ----
// A device whose code in this build is sm_90a's. `encode` is the driver's cuTensorMapEncodeTiled, null elsewhere.
struct Device {
  void* encode = nullptr;
  int multiprocessors = 0;
};
Device find_device(int index);
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
bool gemm_fits(const WideProduct& p);
void gemm_run(cudaStream_t s, const Device& device, const WideProduct& p);

// ---- products of 1 to 64 rows (gemv_*.cu) ----
// y = x w^T for up to three matrices of one input, or for one matrix a head. Rows of x and w are aligned to 16 bytes.
struct GemvPlan {
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
  // With one of these x, of at most 8 tokens, is made ready in shared memory: see input_fits_shared.
  const float* gain = nullptr;  // [in]: x is RMS-normalised first
  float eps = 0;
  bool quantise = false;  // bf16 x, or the normalised one, becomes codes with a scale per 128 entries
  bool add = false;       // y += instead of y =
};
// Whether rows of `in` entries fit in the shared memory that products may take for them.
bool input_fits_shared(i64 tokens, i64 in);
void gemv_bf16(cudaStream_t s, const GemvPlan& p);
void gemv_fp8(cudaStream_t s, const GemvPlan& p);

}  // namespace fathom::cuda
