#include "kernels/cuda/linear/product.h"

namespace fathom::cuda {
namespace {

i64 bytes_of(Type type) { return type == Type::f32 ? 4 : type == Type::bf16 ? 2 : 1; }

bool whole(const void* data, i64 bytes) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && bytes % 16 == 0; }

}  // namespace

ProductShape shape_of(const Product& p) {
  ProductShape s;
  const i64 x_bytes = bytes_of(p.x_type);
  s.rows = p.rows;
  s.in = p.part[0].w.in;
  s.parts = p.parts;
  s.groups = p.offsets != nullptr ? p.part[0].w.count : 0;
  s.heads = p.heads;
  s.x = p.x_type;
  s.w = p.part[0].w.type;
  s.norm = p.gain != nullptr;
  s.quantise = p.quantise;
  s.add = p.add;
  s.transposed = p.w_transposed;
  s.between_experts = p.between_experts;
  s.same_rows = p.heads > 1 && p.x_head == 0;
  s.y_f32 = true;
  s.x_aligned = whole(p.x, p.x_stride * x_bytes) && whole(p.x, p.x_head * x_bytes);
  s.w_contiguous = p.heads == 1 || p.w_head == p.part[0].w.out * s.in;
  for (int i = 0; i < p.parts; ++i) {
    const Matrix& w = p.part[i].w;
    s.out[i] = w.out;
    s.y_f32 = s.y_f32 && p.part[i].y_type == Type::f32;
    s.w_aligned = s.w_aligned && whole(w.data, s.in * bytes_of(w.type)) && whole(w.data, p.w_head * bytes_of(w.type));
  }
  return s;
}

}  // namespace fathom::cuda
