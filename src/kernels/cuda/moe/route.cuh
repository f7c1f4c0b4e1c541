// Routing of one token, by one warp.
#pragma once

#include "kernels/cuda/moe/moe.h"
#include "kernels/cuda/numbers.cuh"

namespace fathom::cuda {

// Orders floats as unsigned numbers; NaN below everything, -0 equal to +0. Zero is no number's.
__device__ inline std::uint32_t sortable(float value) {
  if (isnan(value)) return 1;
  const std::uint32_t bits = __float_as_uint(value + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline float unsortable(std::uint32_t key) {
  if (key <= 1) return -INFINITY;
  return __uint_as_float((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}

// The index of the largest of values[0 .. n) whose flag is not set, the first of equals; sets its flag. One warp.
__device__ inline int take_best(const float* values, bool* taken, int n) {
  const int lane = threadIdx.x % 32;
  std::uint32_t best = 0;
  int index = 0x7fffffff;
  for (int i = lane; i < n; i += 32) {
    const std::uint32_t key = sortable(values[i]);
    if (!taken[i] && key > best) best = key, index = i;
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

// Bytes of shared memory that a warp needs to route: scores [E], choice [E], group [n_groups], flags of both.
__host__ __device__ inline std::size_t route_bytes(const Route& r) {
  return (static_cast<std::size_t>(2 * r.experts + r.n_groups) * sizeof(float) +
          static_cast<std::size_t>(r.experts + r.n_groups) + 15) /
         16 * 16;
}

// What a lane holds of a token's routing: its choice number `lane`.
struct Choice {
  int index;
  float weight;
};

// Below, a warp holds a number for each of at most 32 kPer experts: that of expert 32 j + lane in register j of a lane.

template <int kPer>
__device__ __forceinline__ void registers_to_scores(const Route& r, float (&score)[kPer]) {
  if (r.sigmoid) {
#pragma unroll
    for (int j = 0; j < kPer; ++j) score[j] = 1.0f / (1.0f + expf(-score[j]));
    return;
  }
  const int lane = threadIdx.x % 32;
  float top = -INFINITY, sum = 0;
#pragma unroll
  for (int j = 0; j < kPer; ++j) top = fmaxf(top, score[j]);
  top = warp_max(top);
#pragma unroll
  for (int j = 0; j < kPer; ++j) sum += score[j] = j * 32 + lane < r.experts ? expf(score[j] - top) : 0;
  sum = warp_sum(sum);
#pragma unroll
  for (int j = 0; j < kPer; ++j) score[j] /= sum;
}

// The best expert left, the first of equals; its key becomes zero.
template <int kPer>
__device__ __forceinline__ int take_best_key(std::uint32_t (&key)[kPer]) {
  const int lane = threadIdx.x % 32;
  std::uint32_t best = key[0];
  int at = 0;
#pragma unroll
  for (int j = 1; j < kPer; ++j) {
    const bool better = key[j] > best;
    best = better ? key[j] : best;
    at = better ? j : at;
  }
  const std::uint32_t top = __reduce_max_sync(0xffffffffu, best);
  const auto index = static_cast<int>(
      __reduce_min_sync(0xffffffffu, best == top ? static_cast<unsigned>(at * 32 + lane) : 0x7fffffffu));
#pragma unroll
  for (int j = 0; j < kPer; ++j) key[j] = index == j * 32 + lane ? 0 : key[j];
  return index;
}

// Groups of 32 experts: group j is register j.
template <int kPer>
__device__ __forceinline__ void keep_register_groups(const Route& r, std::uint32_t (&key)[kPer]) {
  const int lane = threadIdx.x % 32;
  std::uint32_t group[kPer];
#pragma unroll
  for (int j = 0; j < kPer; ++j) {
    const std::uint32_t top = __reduce_max_sync(0xffffffffu, key[j]);
    const int first = __ffs(static_cast<int>(__ballot_sync(0xffffffffu, key[j] == top))) - 1;
    const std::uint32_t next = __reduce_max_sync(0xffffffffu, lane == first ? 0 : key[j]);
    group[j] = r.bias != nullptr ? sortable(unsortable(top) + unsortable(next)) : top;
  }
#pragma unroll
  for (int j = 0; j < kPer; ++j) {
    int better = 0;
#pragma unroll
    for (int i = 0; i < kPer; ++i) better += group[i] > group[j] || (group[i] == group[j] && i < j) ? 1 : 0;
    key[j] = better < r.top_k_groups ? key[j] : sortable(-INFINITY);
  }
}

template <int kPer>
__device__ __forceinline__ void keep_any_groups(const Route& r, std::uint32_t (&key)[kPer], float* memory) {
  const int lane = threadIdx.x % 32;
  float *choice = memory + r.experts, *group = choice + r.experts;
  bool* kept = reinterpret_cast<bool*>(group + r.n_groups) + r.experts;
#pragma unroll
  for (int j = 0; j < kPer; ++j)
    if (j * 32 + lane < r.experts) choice[j * 32 + lane] = unsortable(key[j]);
  __syncwarp();
  limit_groups(r, choice, group, kept);
#pragma unroll
  for (int j = 0; j < kPer; ++j) key[j] = j * 32 + lane < r.experts ? sortable(choice[j * 32 + lane]) : 0;
  __syncwarp();
}

template <int kPer>
__device__ __forceinline__ Choice choose_in_registers(const Route& r, i64 t, float* memory) {
  const int lane = threadIdx.x % 32;
  const float* logits = r.logits + t * r.logits_stride;
  float score[kPer], bias[kPer];
  std::uint32_t key[kPer];
#pragma unroll
  for (int j = 0; j < kPer; ++j) {
    const int e = j * 32 + lane;
    score[j] = e < r.experts ? __ldcg(logits + e) : -INFINITY;
    bias[j] = e < r.experts && r.bias != nullptr ? r.bias[e] : 0;
  }
  registers_to_scores(r, score);
#pragma unroll
  for (int j = 0; j < kPer; ++j) key[j] = j * 32 + lane < r.experts ? sortable(score[j] + bias[j]) : 0;
  if (r.n_groups > 1) {
    if (kPer > 1 && r.experts == 32 * kPer && r.n_groups == kPer)
      keep_register_groups(r, key);
    else
      keep_any_groups(r, key, memory);
  }
  Choice mine{0, 0};
  float sum = 0;
  for (int k = 0; k < r.top_k; ++k) {
    const int best = take_best_key(key);
    float chosen = 0;
#pragma unroll
    for (int j = 0; j < kPer; ++j) chosen = best / 32 == j ? score[j] : chosen;
    chosen = __shfl_sync(0xffffffffu, chosen, best % 32);
    sum += chosen;
    mine.index = lane == k ? best : mine.index;
    mine.weight = lane == k ? chosen : mine.weight;
  }
  const float divisor = r.normalize && sum != 0 ? sum : 1.0f;
  mine.weight = mine.weight / divisor * r.route_scale;
  return mine;
}

__host__ __device__ inline bool routes_in_registers(const Route& r) { return r.experts <= 256 && r.top_k <= 32; }

// Choices of token t, one a lane; only where they are routed in registers.
__device__ __forceinline__ Choice route_in_registers(const Route& r, i64 t, float* memory) {
  if (r.experts <= 64) return choose_in_registers<2>(r, t, memory);
  return choose_in_registers<8>(r, t, memory);
}

// Choices and weights of token t from its logits.
__device__ inline void route_token(const Route& r, i64 t, float* memory) {
  const int lane = threadIdx.x % 32;
  if (routes_in_registers(r)) {
    const Choice mine = route_in_registers(r, t, memory);
    if (lane >= r.top_k) return;
    r.indices[t * r.top_k + lane] = mine.index;
    r.weights[t * r.top_k + lane] = mine.weight;
    return;
  }
  float *scores = memory, *choice = scores + r.experts, *group = choice + r.experts;
  bool *taken = reinterpret_cast<bool*>(group + r.n_groups), *kept = taken + r.experts;
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
