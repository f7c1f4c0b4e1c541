#include "kernels/cuda/sm90/gemm_plan.h"

#include <algorithm>

namespace fathom::cuda {
namespace {

i64 divide_up(i64 a, i64 b) { return (a + b - 1) / b; }
i64 width_of(i64 rows) { return divide_up(rows, 32) * 32; }  // the narrowest tile for so many rows

// The width of tiles that ends soonest: whole waves of tiles over `units` pairs of blocks, each with a fixed cost.
i64 best_width(i64 rows, i64 outs, i64 units, i64 most) {
  i64 best = most, best_cost = 0;
  for (i64 width = most; width >= 32; width -= 32) {
    const i64 size = width_of(divide_up(rows, divide_up(rows, width))), tiles = divide_up(rows, size) * outs,
              cost = divide_up(tiles, units) * (size + 48);
    if (best_cost != 0 && cost >= best_cost) continue;
    best = width, best_cost = cost;
  }
  return best;
}

}  // namespace

int gemm_tile_rows(const ProductShape& shape, int part, int multiprocessors) {
  const bool codes = shape.fp8() && !shape.mixed();
  if (codes) return 128;
  const i64 most = shape.fp8() ? 192 : 256, out = shape.out[part];
  // Most experts' rows in one tile, which is no wider than that needs.
  if (shape.groups > 0) return static_cast<int>(std::min(most, width_of(2 * shape.rows / shape.groups + 16)));
  const bool flat = shape.same_rows && out == 128;  // heads of 128 outputs with one input are one matrix
  const i64 outs = flat ? divide_up(out * shape.heads, 256) : divide_up(out, 256) * shape.heads;
  return static_cast<int>(best_width(shape.rows, outs, multiprocessors / 2, most));
}

}  // namespace fathom::cuda
