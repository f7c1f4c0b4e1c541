// Split-K products on Hopper: maps and plans for the kernels of splitk.cuh.
#include "kernels/cuda/sm90/splitk_kernels.h"

#include <algorithm>

#include "kernels/cuda/linear/kernels.h"

namespace fathom::cuda {
namespace {

constexpr int kMostStages = 16;

bool aligned_to(const void* data, std::uintptr_t bytes) { return reinterpret_cast<std::uintptr_t>(data) % bytes == 0; }

SplitKPart part_of(const Product::Part& p, int outputs) {
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
void set_memory(SplitKPlan& plan, Kind kind, const SplitK& c) {
  const int halves = kind == Kind::mixed ? 2 : 1, scales = kind == Kind::fp8 ? c.width * 4 : 0;
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

void splitk_product(Stream& s, const Product& p, const ProductPlan& chosen) {
  const SplitK c{chosen.outputs, chosen.splits, chosen.rows, chosen.at_once};
  const Kind kind = kind_of(p);
  const i64 in = p.part[0].w.in, box = kind == Kind::bf16 ? 64 : 128, x_box = kind == Kind::fp8 ? 128 : 64;
  SplitKPlan plan{};
  SplitKMaps maps{};
  plan.parts = p.parts;
  plan.tokens = static_cast<int>(p.rows);
  plan.outputs = c.outputs;
  plan.splits = c.splits;
  plan.add = p.add;
  plan.steps = static_cast<int>((in + box - 1) / box);
  plan.scale_columns = static_cast<int>((in + 127) / 128);
  for (int i = 0; i < p.parts; ++i) {
    const Matrix& w = p.part[i].w;
    plan.part[i] = part_of(p.part[i], c.outputs);
    plan.tiles += plan.part[i].tiles;
    const i64 row = in * (kind == Kind::bf16 ? 2 : 1);
    maps.w[i] = map_of(s.device, {w.data, w.type, 2, {in, w.out}, {row}, {static_cast<int>(box), c.outputs}, 128});
  }
  const i64 x_row = p.x_stride * (kind == Kind::fp8 ? 1 : 2);
  maps.x = map_of(s.device, {p.x, p.x_type, 2, {in, p.rows}, {x_row}, {static_cast<int>(x_box), c.width}, 128});
  if (kind == Kind::fp8)
    maps.scales =
        map_of(s.device, {p.x_scale, Type::f32, 2, {p.rows, plan.steps}, {p.x_scale_stride * 4}, {c.width, 1}, 0});
  set_memory(plan, kind, c);
  if (kind == Kind::bf16) return splitk_bf16(s, maps, plan, c);
  kind == Kind::fp8 ? splitk_fp8(s, maps, plan, c) : splitk_mixed(s, maps, plan, c);
}

}  // namespace fathom::cuda
