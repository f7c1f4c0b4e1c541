#include "kernels/cuda/linear/chooser.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/cuda/linear/code_rows.h"
#include "kernels/cuda/linear/kernels.h"
#include "kernels/cuda/linear/mma_plan.h"
#include "kernels/cuda/rows/rows.h"
#include "kernels/cuda/sm90/gemm_plan.h"
#include "kernels/cuda/sm90/splitk_plan.h"

namespace fathom::cuda {
namespace {

// Costs are counted in rows. GEMV reads all rows in each of its blocks: it costs their number. Any other kernel costs
// the number of rows up to which GEMV was measured to be the faster one, and a fraction, so that no two cost the same
// (bench/results/2026-11-30-h200-dense.txt, -h200-decode.md).
constexpr double kOnHopper = 0.25, kPortable = 0.5;

// With many outputs, each block's reading of all rows costs more than the weights from 64 rows on; so it does beside a
// form that first writes normalised rows, or adds afterwards. Of heads and between the experts' kernels it wins longer.
i64 gemv_rows(const ProductShape& p) {
  if (p.heads > 1 || p.between_experts) return 256;
  return (p.norm || p.add) && p.outputs() <= 16384 ? 128 : 64;
}

// Split-K against GEMV.
i64 gemv_rows_before_splitk(const ProductShape& p) {
  const i64 weights = p.outputs() * p.in;
  if (p.quantise) return weights >= i64{1} << 25 ? 0 : 1;
  if (p.fp8()) return weights >= i64{1} << 23 ? 16 : 32;
  return weights >= i64{1} << 25 ? 8 : 16;
}

// Up to so many rows split-K is faster than tiles of GEMM. Between the experts' kernels, more made those of 671B
// slower.
i64 splitk_rows(const ProductShape& p) {
  if (p.between_experts) return 64;
  return p.outputs() <= (p.quantise ? 4096 : 16384) ? kSplitKRows : 128;
}

// bf16 or FP8 weights, with rows that are or will be bf16 or codes, 16 bytes at a time.
bool for_tensor_cores(const ProductShape& p) {
  return p.w != Type::f32 && p.w_aligned && (p.norm || (p.x == Type::bf16 && p.x_aligned)) &&
         (!p.quantise || (p.fp8() && p.in % 128 == 0));
}

bool on_hopper(const ProductShape& p, const Device& device) {
  return device.sm90a && for_tensor_cores(p) && (!p.add || p.y_f32) && p.w_contiguous && p.in > 0 && p.outputs() > 0;
}

// Rows that are made ready in each block: with several rows and many blocks it is cheaper to do it once.
bool norm_in_gemv(const ProductShape& p, const Device& device) {
  return p.norm && p.x == Type::f32 && p.x_aligned && (p.rows == 1 || (p.outputs() <= 16384 && !p.quantise)) &&
         input_fits_shared(device, p.rows, p.in);
}

bool gemv_supports(const ProductShape& p, const Device&) {
  const bool codes = p.x == Type::e4m3 && p.fp8() && !p.norm && p.in % 128 == 0;
  return (codes ? p.w_aligned : for_tensor_cores(p)) && p.groups == 0 && !p.transposed && !p.same_rows &&
         p.rows <= gemv_rows(p) && (p.heads == 1 || p.parts == 1);
}
double gemv_cost(const ProductShape& p) { return static_cast<double>(p.rows); }
ProductPlan gemv_plan(const ProductShape& p, const Device& device) {
  ProductPlan plan{.outputs = 16, .rows = p.rows <= 8 ? 8 : p.rows <= 16 ? 16 : p.rows <= 32 ? 32 : 64, .at_once = 0};
  plan.norm_first = p.norm && !norm_in_gemv(p, device);
  const bool alone = p.norm ? !plan.norm_first : p.add && p.rows == 1 && input_fits_shared(device, 1, p.in);
  if (p.quantise) plan.codes = alone ? Codes::in_kernel : Codes::by_row;
  return plan;
}

bool splitk_supports(const ProductShape& p, const Device& device) {
  return on_hopper(p, device) && p.groups == 0 && p.heads == 1 && !p.transposed && p.rows <= splitk_rows(p);
}
double splitk_cost(const ProductShape& p) { return static_cast<double>(gemv_rows_before_splitk(p)) + kPortable; }
ProductPlan splitk_plan(const ProductShape& p, const Device& device) {
  const SplitK c = divide_splitk(p, device.multiprocessors);
  return {p.norm, p.quantise ? Codes::by_column : Codes::none, c.outputs, c.width, c.splits, c.at_once};
}

bool gemm_supports(const ProductShape& p, const Device& device) {
  return on_hopper(p, device) && std::max(p.groups, p.heads) <= kGemmGroups &&
         (!p.transposed || (p.w == Type::bf16 && p.out[0] == 128 && p.in % 64 == 0 && (p.heads == 1 || p.same_rows)));
}
double gemm_cost(const ProductShape& p) { return static_cast<double>(gemv_rows(p)) + kOnHopper; }
ProductPlan gemm_plan(const ProductShape& p, const Device& device) {
  return {p.norm, p.quantise ? Codes::by_column : Codes::none, 128, gemm_tile_rows(p, 0, device.multiprocessors)};
}

bool mma_supports(const ProductShape& p, const Device& device) {
  return for_tensor_cores(p) && !p.add && !p.transposed && device.shared_bytes >= kPortableShared;
}
double mma_cost(const ProductShape& p) { return static_cast<double>(gemv_rows(p)) + kPortable; }
ProductPlan mma_plan(const ProductShape& p, const Device& device) {
  return {.norm_first = p.norm,
          .codes = p.quantise ? Codes::by_row : Codes::none,
          .outputs = kTileOuts,
          .rows = kTileRows,
          .stages = mma_stages(kind_of(p), device.shared_bytes)};
}

bool simple_supports(const ProductShape& p, const Device&) { return !p.add; }
double simple_cost(const ProductShape&) { return 1e9; }
ProductPlan simple_plan(const ProductShape& p, const Device&) {
  return {p.norm, p.quantise ? Codes::by_row : Codes::none, 64, 64};
}

constexpr ProductKernel kKernels[] = {
    {"gemv", gemv_supports, gemv_cost, gemv_plan, gemv_product},
    {"sm90_splitk", splitk_supports, splitk_cost, splitk_plan, splitk_product},
    {"sm90_gemm", gemm_supports, gemm_cost, gemm_plan, gemm_product},
    {"mma", mma_supports, mma_cost, mma_plan, mma_product},
    {"simple", simple_supports, simple_cost, simple_plan, simple_product},
};

i64 norm_bytes(const ProductShape& p, const ProductPlan& plan) {
  return plan.norm_first ? aligned(p.rows * p.in * 2) : 0;
}

Array rows_of(const Product& p) {
  const i64 in = p.part[0].w.in;
  return {const_cast<void*>(p.x), p.x_type, 2, {p.rows, in}, {p.x_stride, 1}};
}

// The rows as codes in scratch.
void quantise_rows(Stream& s, Product& p, bool by_column, void* scratch) {
  const i64 in = p.part[0].w.in;
  const bool power_of_two = p.part[0].w.power_of_two;
  const CodeRows rows = by_column ? CodeRows::by_column(scratch, p.rows, in) : CodeRows::by_row(scratch, p.rows, in);
  if (by_column)
    quantize_by_column(s, rows.codes, rows.scales, rows.stride, rows_of(p), power_of_two);
  else
    quantize(s, rows.codes, rows.scales, rows_of(p), power_of_two);
  p.x = rows.codes;
  p.x_type = Type::e4m3;
  p.x_scale = rows.scales;
  p.x_scale_stride = rows.stride;
  p.x_stride = in;
  p.quantise = false;
}

}  // namespace

std::span<const ProductKernel> product_kernels() { return kKernels; }

Choice choose(const ProductShape& shape, const Device& device) {
  Choice best;
  for (const ProductKernel& k : kKernels)
    if (k.supports(shape, device) && (best.kernel == nullptr || k.cost(shape) < best.kernel->cost(shape)))
      best.kernel = &k;
  if (best.kernel != nullptr) best.plan = best.kernel->plan(shape, device);
  return best;
}

std::string describe(const Choice& choice) {
  if (choice.kernel == nullptr) return "none: the plain form";
  constexpr const char* kCodes[] = {"", "  codes in the kernel", "  codes by row", "  codes by column"};
  const ProductPlan& plan = choice.plan;
  return fmt::format("{:11}  tile {:3} x {:3}  splits {}{}{}{}", choice.kernel->name, plan.outputs, plan.rows,
                     plan.splits, plan.stages > 0 ? fmt::format("  stages {}", plan.stages) : "",
                     plan.norm_first ? "  norm first" : "", kCodes[static_cast<int>(plan.codes)]);
}

i64 scratch_bytes(const ProductShape& p, const ProductPlan& plan) {
  const i64 norm = norm_bytes(p, plan);
  if (plan.codes == Codes::none || plan.codes == Codes::in_kernel) return norm;
  return norm + CodeRows::bytes(p.rows, p.in);
}

void run(Stream& s, const Product& product, const Choice& choice, void* scratch) {
  Product p = product;
  auto* place = static_cast<char*>(scratch);
  if (choice.plan.norm_first) {
    const i64 in = p.part[0].w.in;
    const Array y{place, Type::bf16, 2, {p.rows, in}, {in, 1}};
    rms_norm(s, y, rows_of(p), p.gain, p.eps);
    p.x = place, p.x_type = Type::bf16, p.x_stride = in, p.gain = nullptr;
    place += norm_bytes(shape_of(product), choice.plan);
  }
  if (choice.plan.codes != Codes::none && choice.plan.codes != Codes::in_kernel)
    quantise_rows(s, p, choice.plan.codes == Codes::by_column, place);
  choice.kernel->run(s, p, choice.plan);
}

}  // namespace fathom::cuda
