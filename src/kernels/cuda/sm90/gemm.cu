// Products of many rows on Hopper: maps and plans for the kernels of gemm.cuh.
#include "kernels/cuda/linear/kernels.h"
#include "kernels/cuda/linear/kind.h"
#include "kernels/cuda/sm90/gemm_kernels.cuh"
#include "kernels/cuda/sm90/gemm_plan.h"

namespace fathom::cuda {
namespace {

GemmPlan plan_of(const Product& p, int part, int tile_rows) {
  const Product::Part& to = p.part[part];
  const Matrix& w = to.w;
  // Heads of 128 outputs with one input are one matrix.
  const bool flat = p.offsets == nullptr && p.x_head == 0 && (w.out == 128 || w.count == 1);
  GemmPlan plan{};
  plan.y = to.y;
  plan.y_type = to.y_type;
  plan.add = p.add;
  plan.whole = kind_of(p) == Kind::fp8;
  plan.y_stride = to.y_stride;
  plan.y_head = flat ? 0 : p.y_head;
  plan.y_block = flat && w.count > 1 ? p.y_head : 128;
  plan.vector = to.y_stride % 8 == 0 && p.y_head % 8 == 0 && reinterpret_cast<std::uintptr_t>(to.y) % 16 == 0;
  plan.offsets = p.offsets;
  plan.w_scale = w.scale;
  plan.groups = flat ? 1 : static_cast<int>(w.count);
  plan.rows = static_cast<int>(p.rows);
  plan.out = static_cast<int>(flat ? w.out * w.count : w.out);
  plan.scale_rows = static_cast<int>((w.out + 127) / 128);
  plan.scale_columns = static_cast<int>((w.in + 127) / 128);
  plan.steps = w.type == Type::e4m3 ? plan.scale_columns : static_cast<int>((w.in + 63) / 64);
  plan.w_rows = static_cast<int>(p.w_transposed ? w.in : w.out);
  plan.x_head = p.x_head != 0 ? 1 : 0;
  plan.most = tile_rows;
  return plan;
}

Maps maps_of(const Device& device, const Product& p, const Matrix& w, int steps) {
  const bool codes = p.x_type == Type::e4m3, fp8 = w.type == Type::e4m3;
  const i64 x_bytes = codes ? 1 : 2, w_bytes = fp8 ? 1 : 2, heads = p.x_head != 0 ? w.count : 1;
  const int w_box = fp8 ? 128 : 64, x_box = codes ? 128 : 64;
  Maps maps{};
  if (p.w_transposed)
    maps.w = map_of(device, {w.data, Type::bf16, 2, {128, w.count * w.in}, {256}, {64, 64}, 128});
  else
    maps.w = map_of(device, {w.data, w.type, 2, {w.in, w.count * w.out}, {w.in * w_bytes}, {w_box, 128}, 128});
  maps.x = map_of(device, {p.x,
                           p.x_type,
                           3,
                           {w.in, heads, p.rows},
                           {heads > 1 ? p.x_head * x_bytes : p.x_stride * x_bytes, p.x_stride * x_bytes},
                           {x_box, 1, 32},
                           128});
  if (codes)
    maps.scales =
        map_of(device, {p.x_scale, Type::f32, 2, {p.rows, steps}, {p.x_scale_stride * 4}, {kScaleRows, 1}, 0});
  return maps;
}

}  // namespace

void gemm_product(Stream& s, const Product& p, const ProductPlan&) {
  const ProductShape shape = shape_of(p);
  for (int i = 0; i < p.parts; ++i) {
    const GemmPlan plan = plan_of(p, i, gemm_tile_rows(shape, i, s.device.multiprocessors));
    const Maps maps = maps_of(s.device, p, p.part[i].w, plan.steps);
    switch (kind_of(p)) {
      case Kind::fp8:
        gemm_fp8(s, maps, plan);
        break;
      case Kind::mixed:
        gemm_mixed(s, maps, plan);
        break;
      case Kind::transposed:
        gemm_transposed(s, maps, plan);
        break;
      case Kind::bf16:  // with no second tile of outputs there is no pair
        (plan.out <= 128 ? gemm_bf16_single : gemm_bf16)(s, maps, plan);
    }
  }
}

}  // namespace fathom::cuda
