// Routing of tokens to experts, and the way there and back.
#include "kernels/cuda/common.cuh"

namespace fathom::cuda {
namespace {

// Orders floats as unsigned numbers; NaN below everything, -0 equal to +0.
__device__ std::uint32_t sortable(float value) {
  if (isnan(value)) return 0;
  const std::uint32_t bits = __float_as_uint(value + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// The index of the largest of values[0 .. n) whose flag is not set, the first of equals; sets its flag. One warp.
__device__ int take_best(const float* values, bool* taken, int n) {
  const int lane = threadIdx.x % 32;
  unsigned long long best = 0;
  for (int i = lane; i < n; i += 32)
    if (!taken[i]) {
      const auto entry = static_cast<unsigned long long>(sortable(values[i])) << 32 | (0xffffffffu - static_cast<unsigned>(i));
      best = entry > best ? entry : best;
    }
  for (int mask = 16; mask > 0; mask >>= 1) {
    const unsigned long long other = __shfl_xor_sync(0xffffffffu, best, mask);
    best = other > best ? other : best;
  }
  const int index = static_cast<int>(0xffffffffu - static_cast<unsigned>(best));
  if (lane == 0) taken[index] = true;
  __syncwarp();
  return index;
}

// Sum of the two best with a bias, the best without.
__device__ float group_score(const float* values, int n, bool biased) {
  float first = -INFINITY, second = -INFINITY;
  for (int i = 0; i < n; ++i) {
    if (values[i] > first) {
      second = first;
      first = values[i];
    } else if (values[i] > second) {
      second = values[i];
    }
  }
  return biased && n > 1 ? first + second : first;
}

__device__ void limit_groups(const Route& r, float* choice, float* group, bool* kept) {
  const int lane = threadIdx.x % 32, size = r.experts / r.n_groups;
  for (int g = lane; g < r.n_groups; g += 32) {
    group[g] = group_score(choice + g * size, size, r.bias != nullptr);
    kept[g] = false;
  }
  __syncwarp();
  for (int k = 0; k < r.top_k_groups; ++k) take_best(group, kept, r.n_groups);
  for (int e = lane; e < r.experts; e += 32)
    if (!kept[e / size]) choice[e] = -INFINITY;
  __syncwarp();
}

// Scores of one token from its logits, by one warp.
__device__ void scores_of(const Route& r, const float* logits, float* scores) {
  const int lane = threadIdx.x % 32;
  if (r.sigmoid) {
    for (int e = lane; e < r.experts; e += 32) scores[e] = 1.0f / (1.0f + expf(-logits[e]));
    return;
  }
  float top = -INFINITY, sum = 0;
  for (int e = lane; e < r.experts; e += 32) top = fmaxf(top, logits[e]);
  top = warp_max(top);
  for (int e = lane; e < r.experts; e += 32) sum += scores[e] = expf(logits[e] - top);
  sum = warp_sum(sum);
  for (int e = lane; e < r.experts; e += 32) scores[e] /= sum;
}

// One warp a token. Shared memory: scores [E], choice [E], group [n_groups], taken [E], kept [n_groups].
__global__ void route_kernel(Route r) {
  extern __shared__ float memory[];
  float *scores = memory, *choice = scores + r.experts, *group = choice + r.experts;
  bool *taken = reinterpret_cast<bool*>(group + r.n_groups), *kept = taken + r.experts;
  const int lane = threadIdx.x;
  const i64 t = blockIdx.x;
  scores_of(r, r.logits + t * r.logits_stride, scores);
  __syncwarp();
  for (int e = lane; e < r.experts; e += 32) {
    choice[e] = scores[e] + (r.bias != nullptr ? r.bias[e] : 0.0f);
    taken[e] = false;
  }
  __syncwarp();
  if (r.n_groups > 1) limit_groups(r, choice, group, kept);
  float sum = 0;
  for (int k = 0; k < r.top_k; ++k) {
    const int best = take_best(choice, taken, r.experts);
    sum += scores[best];
    if (lane == 0) {
      r.indices[t * r.top_k + k] = best;
      r.weights[t * r.top_k + k] = scores[best];
    }
  }
  __syncwarp();
  const float divisor = r.normalize && sum != 0 ? sum : 1.0f;
  for (int k = lane; k < r.top_k; k += 32)
    r.weights[t * r.top_k + k] = r.weights[t * r.top_k + k] / divisor * r.route_scale;
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
    if (place >= 0) reinterpret_cast<std::uint16_t*>(rows + place * bytes)[k] = reinterpret_cast<const std::uint16_t*>(from)[k];
    if (zero) reinterpret_cast<std::uint16_t*>(rows + i * bytes)[k] = 0;
  }
}

__global__ void combine_kernel(Array y, Array rows, const std::int32_t* places, const float* weights, int top_k) {
  const i64 t = blockIdx.x;
  for (i64 i = blockIdx.y * static_cast<i64>(blockDim.x) + threadIdx.x; i < y.dim[1]; i += static_cast<i64>(gridDim.y) * blockDim.x) {
    float sum = 0;
    for (int k = 0; k < top_k; ++k) {
      const i64 place = places[t * top_k + k];
      if (place >= 0) sum += weights[t * top_k + k] * load(rows.data, rows.type, place * rows.stride[0] + i);
    }
    store(y.data, y.type, t * y.stride[0] + i, sum);
  }
}

}  // namespace

void route(cudaStream_t s, const Route& r) {
  if (r.tokens == 0) return;
  const std::size_t bytes = static_cast<std::size_t>(2 * r.experts + r.n_groups) * sizeof(float) + static_cast<std::size_t>(r.experts + r.n_groups);
  route_kernel<<<static_cast<unsigned>(r.tokens), 32, bytes, s>>>(r);
  check_launch("route");
}

void group_by_expert(cudaStream_t s, const Grouping& g, const Array& x) {
  count_kernel<<<1, 1024, static_cast<std::size_t>(g.n_local + 1) * sizeof(int), s>>>(g);
  check_launch("group_by_expert (count)");
  if (g.choices == 0) return;
  if (g.n_local > 0) place_kernel<<<static_cast<unsigned>(g.n_local), 512, 0, s>>>(g);
  check_launch("group_by_expert (place)");
  spread_kernel<<<static_cast<unsigned>(g.choices), 128, 0, s>>>(g, x);
  check_launch("group_by_expert (spread)");
}

void combine(cudaStream_t s, const Array& y, const Array& rows, const std::int32_t* places, const float* weights,
             int top_k) {
  if (y.dim[0] == 0 || y.dim[1] == 0) return;
  const dim3 grid(static_cast<unsigned>(y.dim[0]), static_cast<unsigned>(ceil_div(y.dim[1], 512)));
  combine_kernel<<<grid, 256, 0, s>>>(y, rows, places, weights, top_k);
  check_launch("combine");
}

}  // namespace fathom::cuda
