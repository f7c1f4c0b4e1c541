// Drawing tokens from logits, one block a row. The arithmetic, the random numbers and the ties are those of the CPU
// backend (backends/cpu/sample.cc): noise is a pure function of (seed, step, token).
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/rows/sampling.h"

namespace fathom::cuda {
namespace {

constexpr int kThreads = 1024;

__device__ std::uint64_t mix(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

// Orders floats as unsigned numbers, -0 as +0.
__device__ std::uint32_t sortable(float value) {
  const std::uint32_t bits = __float_as_uint(value + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ float unsortable(std::uint32_t key) {
  return __uint_as_float((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}

// One row and the cut of its candidates: those with a key above `key`, and at `key` those with ids up to `last_id`.
struct Row {
  const float* logits;
  const std::uint8_t* seen;
  float penalty, top, temperature;
  int vocab;
  std::uint32_t key;
  int last_id;

  __device__ float penalised(int id) const { return penalised(id, logits[id]); }
  __device__ float penalised(int id, float logit) const {
    if (isnan(logit)) return -INFINITY;
    if (seen == nullptr || penalty == 1 || (seen[id >> 3] >> (id & 7) & 1) == 0) return logit;
    return logit > 0 ? logit / penalty : logit * penalty;
  }
  // The best one is 0.
  __device__ float scaled(int id) const { return (penalised(id) - top) / temperature; }
  __device__ bool kept(float value, int id) const {
    const std::uint32_t k = sortable(value);
    return value != -INFINITY && (k > key || (k == key && id <= last_id));
  }
};

__device__ double block_sum_double(double value) {
  __shared__ double sums[32];
  for (int mask = 16; mask > 0; mask >>= 1) value += __shfl_xor_sync(0xffffffffu, value, mask);
  __syncthreads();
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  double total = 0;
  for (int w = 0; w < kThreads / 32; ++w) total += sums[w];
  return total;
}

// Larger values first, then smaller ids; every thread gets the winner.
template <typename T>
__device__ void block_best(T& value, int& id) {
  __shared__ T values[32];
  __shared__ int ids[32];
  const auto take = [&](T other, int other_id) {
    if (other > value || (other == value && other_id < id)) {
      value = other;
      id = other_id;
    }
  };
  for (int mask = 16; mask > 0; mask >>= 1) {
    const T other = __shfl_xor_sync(0xffffffffu, value, mask);
    take(other, __shfl_xor_sync(0xffffffffu, id, mask));
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) {
    values[threadIdx.x / 32] = value;
    ids[threadIdx.x / 32] = id;
  }
  __syncthreads();
  for (int w = 0; w < kThreads / 32; ++w) take(values[w], ids[w]);
}

// Weight of a candidate in a cut: 1 when candidates are counted, its probability (unnormalised) otherwise.
__device__ double weight_of(float value, bool counted) { return counted ? 1.0 : exp(static_cast<double>(value)); }

// Sum of the weights of kept candidates whose key is at least `key`.
__device__ double weight_above(const Row& row, std::uint32_t key, bool counted) {
  double sum = 0;
  for (int id = threadIdx.x; id < row.vocab; id += kThreads) {
    const float value = row.scaled(id);
    if (row.kept(value, id) && sortable(value) >= key) sum += weight_of(value, counted);
  }
  return block_sum_double(sum);
}

// Shrinks the cut to the fewest best candidates whose weights reach `target`.
__device__ void cut_to(Row& row, double target, bool counted) {
  // The largest key whose candidates and all better ones reach the target: it is that of some candidate.
  std::uint32_t low = row.key, high = sortable(0.0f);
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2 + 1;
    if (weight_above(row, middle, counted) >= target)
      low = middle;
    else
      high = middle - 1;
  }
  const double above = low == 0xffffffffu ? 0 : weight_above(row, low + 1, counted);
  const double each = weight_of(unsortable(low), counted);
  // How many of the candidates at this key are needed; the smallest ids come first.
  const double wanted = fmax(1.0, ceil((target - above) / each));
  int first = 0, last = row.vocab - 1;
  while (first < last) {
    const int middle = (first + last) / 2;
    double count = 0;
    for (int id = threadIdx.x; id <= middle; id += kThreads) {
      const float value = row.scaled(id);
      if (row.kept(value, id) && sortable(value) == low) count += 1;
    }
    if (block_sum_double(count) >= wanted)
      last = middle;
    else
      first = middle + 1;
  }
  if (low > row.key || first < row.last_id) row.last_id = first;
  row.key = low;
}

__device__ int draw(const Row& row, float bound, std::uint64_t stream) {
  double best = -INFINITY;
  int best_id = row.vocab;
  for (int id = threadIdx.x; id < row.vocab; id += kThreads) {
    const float value = row.scaled(id);
    if (!row.kept(value, id) || value < bound) continue;
    const std::uint64_t bits = mix(stream + static_cast<std::uint64_t>(id));
    const double u = (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
    const double noisy = static_cast<double>(value) - log(-log(u));
    if (noisy > best) {
      best = noisy;
      best_id = id;
    }
  }
  block_best(best, best_id);
  return best_id;
}

// The best logit and the smallest id that has it; four logits at a time, several loads on their way.
__device__ void best_logit(const Row& row, float& top, int& best) {
  const auto take = [&](int id, float value) {
    const float logit = row.penalised(id, value);
    if (logit > top) {
      top = logit;
      best = id;
    }
  };
  const int whole = reinterpret_cast<std::uintptr_t>(row.logits) % 16 == 0 ? row.vocab / 4 * 4 : 0;
#pragma unroll 4
  for (int id = static_cast<int>(threadIdx.x) * 4; id < whole; id += kThreads * 4) {
    const float4 v = *reinterpret_cast<const float4*>(row.logits + id);
    take(id, v.x), take(id + 1, v.y), take(id + 2, v.z), take(id + 3, v.w);
  }
  for (int id = whole + static_cast<int>(threadIdx.x); id < row.vocab; id += kThreads) take(id, row.logits[id]);
  block_best(top, best);
}

__global__ void __launch_bounds__(kThreads, 1) sample_kernel(const __grid_constant__ Sampling args) {
  let_next_start();
  wait_for_previous();
  const int i = static_cast<int>(blockIdx.x);
  const RowSampling params = args.params[i];
  Row row{args.logits + i * args.logits_stride,
          args.seen != nullptr ? args.seen + i * args.seen_stride : nullptr,
          params.repetition_penalty,
          0,
          params.temperature,
          args.vocab,
          0,
          args.vocab};
  float top = -INFINITY;
  int best = args.vocab;
  best_logit(row, top, best);
  if (best == args.vocab) best = 0;
  if (!(row.temperature > 0) || isinf(top)) {
    if (threadIdx.x == 0) args.ids[i] = best;
    return;
  }
  row.top = top;
  if (params.top_k > 0 && params.top_k < args.vocab) {
    const double candidates = weight_above(row, 0, true);
    if (params.top_k < candidates) cut_to(row, params.top_k, true);
  }
  if (params.top_p < 1) cut_to(row, static_cast<double>(params.top_p) * weight_above(row, 0, false), false);
  const float bound = params.min_p > 0 ? logf(fminf(params.min_p, 1.0f)) : -INFINITY;
  const std::uint64_t stream =
      mix(mix(static_cast<std::uint64_t>(params.seed)) + static_cast<std::uint64_t>(params.step));
  const int id = draw(row, bound, stream);
  if (threadIdx.x == 0) args.ids[i] = id;
}

}  // namespace

void sample(Stream& s, const Sampling& args) {
  if (args.rows == 0) return;
  launch_early(sample_kernel, "sample", static_cast<unsigned>(args.rows), kThreads, 0, s, args);
}

}  // namespace fathom::cuda
