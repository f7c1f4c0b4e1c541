// Products of many rows: bf16 and FP8 weights, plain and grouped by expert.
#include "kernels/cuda/linear/mma.cuh"

namespace fathom::cuda {
namespace {

void run(cudaStream_t s, const Array& y, const Array& x, const Matrix& w, const std::int32_t* offsets) {
  if (x.dim[0] == 0 || w.out == 0 || w.count == 0) return;
  MmaPlan p{x.data, x.stride[0], w, y.data, y.type, y.stride[0], x.dim[0]};
  p.offsets = offsets;
  w.type == Type::e4m3 ? launch_mma<true>(s, p) : launch_mma<false>(s, p);
}

}  // namespace

void linear_tile(cudaStream_t s, const Array& y, const Array& x, const Matrix& w) { run(s, y, x, w, nullptr); }

void head_matmul_tile(cudaStream_t s, const Array& y, const Array& x, const Array& w) {
  if (x.dim[0] == 0 || x.dim[1] == 0 || w.dim[1] == 0) return;
  MmaPlan p{x.data, x.stride[0], {}, y.data, y.type, y.stride[0], x.dim[0]};
  p.w.data = w.data;
  p.w.out = w.dim[1];
  p.w.in = w.dim[2];
  p.x_head = x.stride[1], p.w_head = w.stride[0], p.y_head = y.stride[1];
  p.heads = static_cast<int>(x.dim[1]);
  launch_mma<false>(s, p);
}

void grouped_linear_tile(cudaStream_t s, const Array& y, const Array& x, const Matrix& w, const std::int32_t* offsets) {
  run(s, y, x, w, offsets);
}

}  // namespace fathom::cuda
