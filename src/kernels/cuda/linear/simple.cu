// Products of any shape and type, in float32 over shared-memory tiles. Readable; the twin of the fast ones.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear/kernels.h"
#include "kernels/cuda/numbers.cuh"

namespace fathom::cuda {
namespace {

constexpr int kTile = 64, kDepth = 16, kThreads = 256;

// Rows with a stride, a type, and perhaps a scale for each 128 entries of a row (and each 128 rows, for weights).
struct Source {
  const void* data;
  Type type;
  i64 stride;
  const float* scale;
  i64 scale_stride;
  int rows_a_scale;
  i64 column = 1;  // from one entry of a row to the next, without scales

  __device__ float at(i64 row, i64 k) const {
    if (type != Type::e4m3) return load(data, type, row * stride + k * column);
    return e4m3_to_float(static_cast<const std::uint8_t*>(data)[row * stride + k]) *
           scale[row / rows_a_scale * scale_stride + k / 128];
  }
};

struct SimplePlan {
  Source x, w;
  void* y;
  Type y_type;
  i64 y_stride, rows, out, in;
};

// y [64, 64] tile at (row0, out0) = x w^T; thread (ty, tx) has rows ty * 4 .. + 3, outputs tx * 4 .. + 3.
__device__ void tile_product(const SimplePlan& p, i64 row0, i64 out0) {
  __shared__ float xs[kDepth][kTile + 1], ws[kDepth][kTile + 1];
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  float sum[4][4] = {};
  for (i64 k0 = 0; k0 < p.in; k0 += kDepth) {
    for (int i = threadIdx.x; i < kTile * kDepth; i += kThreads) {
      const int r = i / kDepth, k = i % kDepth;
      const bool inside = k0 + k < p.in;
      xs[k][r] = inside && row0 + r < p.rows ? p.x.at(row0 + r, k0 + k) : 0;
      ws[k][r] = inside && out0 + r < p.out ? p.w.at(out0 + r, k0 + k) : 0;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] += xs[k][ty * 4 + i] * ws[k][tx * 4 + j];
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      const i64 row = row0 + ty * 4 + i, out = out0 + tx * 4 + j;
      if (row < p.rows && out < p.out) store(p.y, p.y_type, row * p.y_stride + out, sum[i][j]);
    }
}

__device__ i64 bytes_of(Type type) { return type == Type::f32 ? 4 : type == Type::bf16 ? 2 : 1; }

__global__ void linear_kernel(SimplePlan p) {
  tile_product(p, static_cast<i64>(blockIdx.y) * kTile, static_cast<i64>(blockIdx.x) * kTile);
}

// Block (x, y, e): tiles y, y + gridDim.y, ... of expert e's rows.
__global__ void grouped_linear_kernel(SimplePlan p, const std::int32_t* offsets) {
  const i64 begin = offsets[blockIdx.z], rows = offsets[blockIdx.z + 1] - begin;
  p.x.data = static_cast<const char*>(p.x.data) + begin * p.x.stride * bytes_of(p.x.type);
  if (p.x.scale != nullptr) p.x.scale += begin * p.x.scale_stride;
  p.w.data = static_cast<const char*>(p.w.data) + blockIdx.z * p.out * p.in * bytes_of(p.w.type);
  if (p.w.scale != nullptr) p.w.scale += blockIdx.z * ((p.out + 127) / 128) * p.w.scale_stride;
  p.y = static_cast<char*>(p.y) + begin * p.y_stride * bytes_of(p.y_type);
  p.rows = rows;
  for (i64 row = static_cast<i64>(blockIdx.y) * kTile; row < rows; row += static_cast<i64>(gridDim.y) * kTile)
    tile_product(p, row, static_cast<i64>(blockIdx.x) * kTile);
}

// Block (x, y, h): head h.
__global__ void head_matmul_kernel(SimplePlan p, i64 x_head, i64 w_head, i64 y_head) {
  const i64 h = blockIdx.z;
  p.x.data = static_cast<const char*>(p.x.data) + h * x_head * bytes_of(p.x.type);
  p.w.data = static_cast<const char*>(p.w.data) + h * w_head * bytes_of(p.w.type);
  p.y = static_cast<char*>(p.y) + h * y_head * bytes_of(p.y_type);
  tile_product(p, static_cast<i64>(blockIdx.y) * kTile, static_cast<i64>(blockIdx.x) * kTile);
}

SimplePlan plan_of(const Product& p, int part) {
  const Product::Part& to = p.part[part];
  const i64 in = to.w.in;
  const float* x_scale = p.x_type == Type::e4m3 ? p.x_scale : nullptr;
  Source w{to.w.data, to.w.type, in, to.w.scale, (in + 127) / 128, 128};
  if (p.w_transposed) w.stride = 1, w.column = to.w.out;
  return {{p.x, p.x_type, p.x_stride, x_scale, in / 128, 1}, w, to.y, to.y_type, to.y_stride, p.rows, to.w.out, in};
}

unsigned tiles(i64 n) { return static_cast<unsigned>((n + kTile - 1) / kTile); }

}  // namespace

void simple_product(Stream& s, const Product& p, const ProductPlan&) {
  for (int i = 0; i < p.parts; ++i) {
    const SimplePlan plan = plan_of(p, i);
    const unsigned outs = tiles(plan.out), rows = tiles(plan.rows), count = static_cast<unsigned>(p.part[i].w.count);
    if (plan.rows == 0 || plan.out == 0 || count == 0) continue;
    if (p.offsets != nullptr)
      launch(grouped_linear_kernel, {"simple_grouped", dim3(outs, rows < 8 ? rows : 8, count), kThreads}, s, plan,
             p.offsets);
    else if (p.heads > 1)
      launch(head_matmul_kernel, {"simple_heads", dim3(outs, rows, static_cast<unsigned>(p.heads)), kThreads}, s, plan,
             p.x_head, p.w_head, p.y_head);
    else
      launch(linear_kernel, {"simple", dim3(outs, rows), kThreads}, s, plan);
  }
}

}  // namespace fathom::cuda
