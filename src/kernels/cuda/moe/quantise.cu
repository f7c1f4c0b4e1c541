// Hidden values of routed and shared experts as codes, in one launch.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/moe/moe.h"
#include "kernels/cuda/numbers.cuh"

namespace fathom::cuda {
namespace {

constexpr int kWarps = 8;

// One warp a unit: of the routed rows first, then of the shared ones.
__global__ void __launch_bounds__(kWarps * 32)
    moe_quantise_kernel(const __grid_constant__ MoeArgs p, i64 routed, i64 all) {
  let_next_start();
  wait_for_previous();
  const i64 item = static_cast<i64>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (item >= all) return;
  const bool shared = item >= routed;
  const i64 unit = shared ? item - routed : item;
  const MoeArgs::Codes& to = shared ? p.shared_codes : p.hidden_codes;
  const uint2 packed = static_cast<const uint2*>(shared ? p.shared_hidden : p.hidden)[unit * 32 + threadIdx.x % 32];
  const float values[4] = {__uint_as_float(packed.x << 16), __uint_as_float(packed.x & 0xffff0000u),
                           __uint_as_float(packed.y << 16), __uint_as_float(packed.y & 0xffff0000u)};
  std::uint32_t codes;
  const float scale = quantize_unit(values, p.w2.power_of_two, codes);
  reinterpret_cast<std::uint32_t*>(to.data)[unit * 32 + threadIdx.x % 32] = codes;
  if (threadIdx.x % 32 == 0) to.scale[unit] = scale;
}

}  // namespace

void moe_quantise(Stream& s, const MoeArgs& p) {
  const i64 routed = static_cast<i64>(p.tokens) * p.route.top_k * p.w2.in / kUnit,
            all = routed + p.tokens * p.shared_w2.in / kUnit;
  launch_early(moe_quantise_kernel, "moe_quantise", static_cast<unsigned>((all + kWarps - 1) / kWarps), kWarps * 32, 0,
               s, p, routed, all);
}

}  // namespace fathom::cuda
