// Products of a few dozen rows on Hopper: maps and plans for the kernels of splitk.cuh.
#include "kernels/cuda/sm90/splitk_kernels.h"

#include <algorithm>

namespace fathom::cuda {
namespace {

constexpr int kMostStages = 16;

bool aligned_to(const void* data, std::uintptr_t bytes) { return reinterpret_cast<std::uintptr_t>(data) % bytes == 0; }

SplitKPart part_of(const WideProduct& p, int outputs) {
  SplitKPart part{};
  part.y = p.y;
  part.y_stride = p.y_stride;
  part.y_type = p.y_type;
  part.w_scale = p.w.scale;
  part.out = static_cast<int>(p.w.out);
  part.tiles = static_cast<int>((p.w.out + outputs - 1) / outputs);
  part.vector = p.y_stride % 4 == 0 && aligned_to(p.y, 16);
  return part;
}

// Stages as many as fit, or as there is something for; the sums need their place afterwards.
void set_memory(SplitKPlan& plan, const SplitKShape& shape, const SplitK& c) {
  const int halves = shape.x_bytes / shape.w_bytes == 2 ? 2 : 1, scales = shape.x_bytes == 1 ? c.width * 4 : 0;
  plan.stage_bytes = (c.outputs * 128 + c.width * 128 * halves + scales + 1023) / 1024 * 1024;
  const int beyond = std::max(0, 128 * 128 - plan.stage_bytes),  // read for outputs that do not exist
      rest = 1024 + 16 * kMostStages + beyond,
            most = std::min(kMostStages, (kSharedBytes / c.at_once - rest) / plan.stage_bytes);
  plan.stages = std::min(most, (plan.steps + c.splits - 1) / c.splits);
  const int sums = plan.tokens * (c.outputs + 4) * 4;
  plan.ring_bytes = std::max(plan.stages * plan.stage_bytes, (sums + 1023) / 1024 * 1024);
  plan.bytes = plan.ring_bytes + rest;
}

}  // namespace

SplitKShape splitk_shape(const WideProduct* products, int count) {
  SplitKShape shape;
  shape.parts = count;
  for (int i = 0; i < count; ++i) shape.out[i] = products[i].w.out;
  shape.rows = products[0].rows;
  shape.in = products[0].w.in;
  shape.w_bytes = products[0].w.type == Type::e4m3 ? 1 : 2;
  shape.x_bytes = products[0].x_scale != nullptr ? 1 : 2;
  return shape;
}

bool splitk_fits(const WideProduct* products, int count) {
  const WideProduct& first = products[0];
  if (count < 1 || count > 3 || first.rows > kSplitKRows) return false;
  for (int i = 0; i < count; ++i) {
    const WideProduct& p = products[i];
    if (!gemm_fits(p) || p.offsets != nullptr || p.w.count != 1 || p.w_transposed || p.w.type != first.w.type ||
        p.w.in != first.w.in || p.w.out > (i64{1} << 30) || p.x != first.x || p.add != first.add)
      return false;
  }
  return true;
}

void splitk_run(cudaStream_t s, const Device& device, const WideProduct* products, int count, const SplitK& c) {
  const WideProduct& p = products[0];
  const SplitKShape shape = splitk_shape(products, count);
  const bool codes = shape.x_bytes == 1, fp8 = shape.w_bytes == 1;
  const i64 box = fp8 ? 128 : 64, x_box = codes ? 128 : 64;
  SplitKPlan plan{};
  SplitKMaps maps{};
  plan.parts = count;
  plan.tokens = static_cast<int>(p.rows);
  plan.outputs = c.outputs;
  plan.splits = c.splits;
  plan.add = p.add;
  plan.steps = static_cast<int>((p.w.in + box - 1) / box);
  plan.scale_columns = static_cast<int>((p.w.in + 127) / 128);
  plan.tiles = static_cast<int>(splitk_tiles(shape, c.outputs));
  for (int i = 0; i < count; ++i) {
    const Matrix& w = products[i].w;
    plan.part[i] = part_of(products[i], c.outputs);
    maps.w[i] = map_of(
        device, {w.data, w.type, 2, {w.in, w.out}, {w.in * shape.w_bytes}, {static_cast<int>(box), c.outputs}, 128});
  }
  maps.x = map_of(device, {p.x,
                           codes ? Type::e4m3 : Type::bf16,
                           2,
                           {p.w.in, p.rows},
                           {p.x_stride * shape.x_bytes},
                           {static_cast<int>(x_box), c.width},
                           128});
  if (codes)
    maps.scales =
        map_of(device, {p.x_scale, Type::f32, 2, {p.rows, plan.steps}, {p.x_scale_stride * 4}, {c.width, 1}, 0});
  set_memory(plan, shape, c);
  if (!fp8) return splitk_bf16(s, maps, plan, c);
  codes ? splitk_fp8(s, maps, plan, c) : splitk_mixed(s, maps, plan, c);
}

}  // namespace fathom::cuda
