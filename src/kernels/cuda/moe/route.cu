// Routing of tokens to experts, and the way there and back.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/moe/route.cuh"
#include "kernels/cuda/rows/rows.h"

namespace fathom::cuda {
namespace {

// One warp a token.
__global__ void route_kernel(Route r) {
  extern __shared__ float memory[];
  route_token(r, blockIdx.x, memory);
}

// One block: offsets from a histogram of the local choices.
__global__ void count_kernel(Grouping g) {
  extern __shared__ int counts[];
  for (int e = threadIdx.x; e < g.n_local; e += blockDim.x) counts[e] = 0;
  __syncthreads();
  for (i64 i = threadIdx.x; i < g.choices; i += blockDim.x) {
    const i64 e = g.indices[i] - g.first;
    if (e >= 0 && e < g.n_local)
      atomicAdd(&counts[e], 1);
    else
      g.places[i] = -1;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  int total = 0;
  for (int e = 0; e < g.n_local; ++e) {
    g.offsets[e] = total;
    total += counts[e];
  }
  g.offsets[g.n_local] = total;
}

// Block e: the places of expert e's choices, in order.
__global__ void place_kernel(Grouping g) {
  __shared__ int warp_counts[32];
  const int e = static_cast<int>(blockIdx.x), lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  int next = g.offsets[e];
  const int end = g.offsets[e + 1];
  for (i64 base = 0; base < g.choices && next < end; base += blockDim.x) {
    const i64 i = base + threadIdx.x;
    const bool mine = i < g.choices && g.indices[i] - g.first == e;
    const unsigned votes = __ballot_sync(0xffffffffu, mine);
    if (lane == 0) warp_counts[warp] = __popc(votes);
    __syncthreads();
    int before = 0, all = 0;
    for (int w = 0; w < warps; ++w) {
      if (w < warp) before += warp_counts[w];
      all += warp_counts[w];
    }
    if (mine) g.places[i] = next + before + __popc(votes & ((1u << lane) - 1));
    next += all;
    __syncthreads();
  }
}

// Block i: choice i's row goes to its place; row i is zeroed when it belongs to no expert here.
__global__ void spread_kernel(Grouping g, Array x) {
  const i64 i = blockIdx.x, d = x.dim[1], place = g.places[i], bytes = d * (x.type == Type::f32 ? 4 : 2);
  const auto* from = static_cast<const char*>(x.data) + i / g.top_k * x.stride[0] * (bytes / d);
  auto* rows = static_cast<char*>(g.rows.data);
  const bool zero = i >= g.offsets[g.n_local];
  if (bytes % 16 == 0 && reinterpret_cast<std::uintptr_t>(from) % 16 == 0) {
    for (i64 k = threadIdx.x; k < bytes / 16; k += blockDim.x) {
      if (place >= 0) reinterpret_cast<uint4*>(rows + place * bytes)[k] = reinterpret_cast<const uint4*>(from)[k];
      if (zero) reinterpret_cast<uint4*>(rows + i * bytes)[k] = uint4{};
    }
    return;
  }
  for (i64 k = threadIdx.x; k < bytes / 2; k += blockDim.x) {
    if (place >= 0)
      reinterpret_cast<std::uint16_t*>(rows + place * bytes)[k] = reinterpret_cast<const std::uint16_t*>(from)[k];
    if (zero) reinterpret_cast<std::uint16_t*>(rows + i * bytes)[k] = 0;
  }
}

__global__ void combine_kernel(Array y, Array rows, const std::int32_t* places, const float* weights, int top_k) {
  const i64 t = blockIdx.x;
  for (i64 i = blockIdx.y * static_cast<i64>(blockDim.x) + threadIdx.x; i < y.dim[1];
       i += static_cast<i64>(gridDim.y) * blockDim.x) {
    float sum = 0;
    for (int k = 0; k < top_k; ++k) {
      const i64 place = places[t * top_k + k];
      if (place >= 0) sum += weights[t * top_k + k] * load(rows.data, rows.type, place * rows.stride[0] + i);
    }
    store(y.data, y.type, t * y.stride[0] + i, sum);
  }
}

__global__ void combine_add_kernel(const __grid_constant__ MoeArgs p) {
  let_next_start();
  wait_for_previous();
  const i64 t = blockIdx.x, d = p.w2.out;
  const int top_k = p.route.top_k;
  for (i64 i = blockIdx.y * static_cast<i64>(blockDim.x) + threadIdx.x; i < d;
       i += static_cast<i64>(gridDim.y) * blockDim.x) {
    float sum = p.y[t * p.y_stride + i];
    for (int k = 0; k < top_k; ++k) {
      const i64 e = p.route.indices[t * top_k + k] - p.first;
      if (e >= 0 && e < p.w2.count) sum += p.route.weights[t * top_k + k] * p.rows[(t * top_k + k) * d + i];
    }
    p.y[t * p.y_stride + i] = sum;
  }
}

}  // namespace

void route(Stream& s, const Route& r) {
  if (r.tokens == 0) return;
  launch(route_kernel, {"route", static_cast<unsigned>(r.tokens), 32, route_bytes(r)}, s, r);
}

void group_by_expert(Stream& s, const Grouping& g, const Array& x) {
  launch(count_kernel, {"group_by_expert (count)", 1, 1024, static_cast<std::size_t>(g.n_local + 1) * sizeof(int)}, s,
         g);
  if (g.choices == 0) return;
  if (g.n_local > 0) launch(place_kernel, {"group_by_expert (place)", static_cast<unsigned>(g.n_local), 512}, s, g);
  launch(spread_kernel, {"group_by_expert (spread)", static_cast<unsigned>(g.choices), 128}, s, g, x);
}

void combine(Stream& s, const Array& y, const Array& rows, const std::int32_t* places, const float* weights,
             int top_k) {
  if (y.dim[0] == 0 || y.dim[1] == 0 || combine_vector(s, y, rows, places, weights, top_k)) return;
  const dim3 grid(static_cast<unsigned>(y.dim[0]), static_cast<unsigned>(ceil_div(y.dim[1], 512)));
  launch(combine_kernel, {"combine", grid, 256}, s, y, rows, places, weights, top_k);
}

void combine_add(Stream& s, const MoeArgs& p) {
  const dim3 grid(static_cast<unsigned>(p.tokens), static_cast<unsigned>(ceil_div(p.w2.out, 256)));
  launch_early(combine_add_kernel, "combine_add", grid, 256, 0, s, p);
}

}  // namespace fathom::cuda
