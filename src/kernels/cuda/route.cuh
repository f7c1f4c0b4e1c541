// Routing of one token, by one warp.
#pragma once

#include "kernels/cuda/common.cuh"

namespace fathom::cuda {

// Orders floats as unsigned numbers; NaN below everything, -0 equal to +0.
__device__ inline std::uint32_t sortable(float value) {
  if (isnan(value)) return 0;
  const std::uint32_t bits = __float_as_uint(value + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// The index of the largest of values[0 .. n) whose flag is not set, the first of equals; sets its flag. One warp.
__device__ inline int take_best(const float* values, bool* taken, int n) {
  const int lane = threadIdx.x % 32;
  std::uint32_t best = 0;
  int index = 0x7fffffff;
  for (int i = lane; i < n; i += 32) {
    const std::uint32_t key = sortable(values[i]);
    if (!taken[i] && (key > best || index == 0x7fffffff)) best = key, index = i;
  }
  const std::uint32_t top = __reduce_max_sync(0xffffffffu, best);
  const bool mine = best == top && index != 0x7fffffff;
  index = static_cast<int>(__reduce_min_sync(0xffffffffu, mine ? static_cast<unsigned>(index) : 0x7fffffffu));
  if (lane == 0) taken[index] = true;
  __syncwarp();
  return index;
}

// Sum of the two best with a bias, the best without.
__device__ inline float group_score(const float* values, int n, bool biased) {
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

__device__ inline void limit_groups(const Route& r, float* choice, float* group, bool* kept) {
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
__device__ inline void scores_of(const Route& r, const float* logits, float* scores) {
  const int lane = threadIdx.x % 32;
  if (r.sigmoid) {
    for (int e = lane; e < r.experts; e += 32) scores[e] = 1.0f / (1.0f + expf(-__ldcg(logits + e)));
    return;
  }
  float top = -INFINITY, sum = 0;
  for (int e = lane; e < r.experts; e += 32) top = fmaxf(top, __ldcg(logits + e));
  top = warp_max(top);
  for (int e = lane; e < r.experts; e += 32) sum += scores[e] = expf(__ldcg(logits + e) - top);
  sum = warp_sum(sum);
  for (int e = lane; e < r.experts; e += 32) scores[e] /= sum;
}

// Bytes of shared memory that route_token needs: scores [E], choice [E], group [n_groups], flags of both.
__host__ __device__ inline std::size_t route_bytes(const Route& r) {
  return (static_cast<std::size_t>(2 * r.experts + r.n_groups) * sizeof(float) +
          static_cast<std::size_t>(r.experts + r.n_groups) + 15) /
         16 * 16;
}

// Choices and weights of token t from its logits.
__device__ inline void route_token(const Route& r, i64 t, float* memory) {
  float *scores = memory, *choice = scores + r.experts, *group = choice + r.experts;
  bool *taken = reinterpret_cast<bool*>(group + r.n_groups), *kept = taken + r.experts;
  const int lane = threadIdx.x % 32;
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

}  // namespace fathom::cuda
