// Gate and shared experts with bf16 weights, few tokens; routing of more than 8.
#include "kernels/cuda/moe/gate.cuh"

namespace fathom::cuda {
namespace {

constexpr int kThreads = 256;

// One warp a token; the last block makes the lists.
__global__ void __launch_bounds__(kThreads) moe_route_kernel(const __grid_constant__ MoeArgs p) {
  extern __shared__ __align__(16) float memory[];
  let_next_start();
  wait_for_previous();
  const int warp = threadIdx.x / 32, t = static_cast<int>(blockIdx.x) * (kThreads / 32) + warp;
  if (t < p.tokens) route_token(p.route, t, memory + route_bytes(p.route) / sizeof(float) * warp);
  if (last_of(p.counter, static_cast<int>(gridDim.x))) list_experts(p, reinterpret_cast<int*>(memory));
}

}  // namespace

void moe_gate_bf16(Stream& s, const MoeArgs& p) {
  if (p.gain != nullptr) return launch_moe_gate<false, Rows::shared, Rows::shared, 1>(s, p);
  dispatch_moe_gate<false, Rows::bf16>(s, p);
}

void moe_route(Stream& s, const MoeArgs& p) {
  constexpr int kWarps = kThreads / 32;
  const std::size_t routing = route_bytes(p.route) * kWarps, lists = list_bytes(p);
  launch_early(moe_route_kernel, "moe_route", static_cast<unsigned>((p.tokens + kWarps - 1) / kWarps), kThreads,
               routing > lists ? routing : lists, s, p);
}

bool routes_in_place(const MoeArgs& p) { return p.tokens == 1 && routes_in_registers(p.route); }
int most_chosen(const MoeArgs& p) { return chosen_at_most(p); }

}  // namespace fathom::cuda
