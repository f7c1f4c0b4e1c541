// Rotation, the paged latent cache, and both forms of attention with one block a token and head.
#include "kernels/cuda/attention/context.cuh"
#include "kernels/cuda/launch.cuh"

namespace fathom::cuda {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / 32, kKeys = 64;  // keys scored before each update of the sums

__global__ void rope_kernel(Array x, const float* freqs, const std::int32_t* positions) {
  const i64 pairs = x.dim[2] / 2, item = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x;
  if (item >= x.dim[0] * x.dim[1] * pairs) return;
  const i64 i = item % pairs, h = item / pairs % x.dim[1], t = item / pairs / x.dim[1];
  const i64 at = t * x.stride[0] + h * x.stride[1] + 2 * i;
  const float cosine = freqs[(positions[t] * pairs + i) * 2], sine = freqs[(positions[t] * pairs + i) * 2 + 1];
  const float re = load(x.data, x.type, at), im = load(x.data, x.type, at + 1);
  store(x.data, x.type, at, re * cosine - im * sine);
  store(x.data, x.type, at + 1, re * sine + im * cosine);
}

__global__ void store_latent_kernel(Cache cache, Array kv, Array k_pe, const std::int32_t* slots) {
  const i64 t = blockIdx.x, slot = slots[t];
  if (slot < 0) return;
  for (int i = threadIdx.x; i < cache.width; i += blockDim.x)
    store(cache.data, cache.type, slot * cache.width + i,
          i < cache.rank ? load(kv.data, kv.type, t * kv.stride[0] + i)
                         : load(k_pe.data, k_pe.type, t * k_pe.stride[0] + i - cache.rank));
}

__global__ void gather_latent_kernel(Array y, Cache cache, Sequences seqs) {
  const int row = static_cast<int>(blockIdx.x);
  int s = 0;
  while (s + 1 < seqs.count && seqs.context_starts[s + 1] <= row) ++s;
  const i64 slot = cache_slot(seqs, cache, s, row - seqs.context_starts[s]);
  for (int i = threadIdx.x; i < cache.width; i += blockDim.x)
    store(y.data, y.type, row * y.stride[0] + i, load(cache.data, cache.type, slot * cache.width + i));
}

// A key in two parts and its value: element offsets into three arrays.
struct Key {
  i64 a, b, v;
};

// Keys and values in the paged latent cache.
struct LatentKeys {
  Cache cache;
  __device__ Key key(const Sequences& seqs, int sequence, int position, int) const {
    const i64 row = cache_slot(seqs, cache, sequence, position) * cache.width;
    return {row, row + cache.rank, row};
  }
};

// Keys and values of each head, one sequence's context after another.
struct ExpandedKeys {
  Array kv, k_pe;
  i64 nope;
  __device__ Key key(const Sequences& seqs, int sequence, int position, int head) const {
    const i64 row = seqs.context_starts[sequence] + position;
    const i64 at = row * kv.stride[0] + head * kv.stride[1];
    return {at, row * k_pe.stride[0], at + nope};
  }
};

// What both forms share: scores are scale * (q_a . key.a + q_b . key.b).
struct Attention {
  Array o, q_a, q_b;  // [T, H, v], [T, H, n_a], [T, H, n_b]
  const void *a, *b, *v;
  Type a_type, b_type;  // values have a_type
  float scale;
};

__device__ float block_max(float value, float* shared) {
  value = warp_max(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  float top = shared[0];
  for (int w = 1; w < kWarps; ++w) top = fmaxf(top, shared[w]);
  return top;
}

// Block (t, h). Shared memory: query [n_a + n_b], sums [v], scores [kKeys].
template <typename Keys>
__global__ void attend_kernel(Attention p, Keys keys, Sequences seqs) {
  extern __shared__ float memory[];
  __shared__ float shared[32];
  const int t = static_cast<int>(blockIdx.x), h = static_cast<int>(blockIdx.y), lane = threadIdx.x % 32,
            warp = threadIdx.x / 32;
  const int n_a = static_cast<int>(p.q_a.dim[2]), n_b = static_cast<int>(p.q_b.dim[2]),
            n_v = static_cast<int>(p.o.dim[2]);
  float *q = memory, *sums = q + n_a + n_b, *scores = sums + n_v;
  for (int i = threadIdx.x; i < n_a + n_b; i += kThreads)
    q[i] = i < n_a ? load(p.q_a.data, p.q_a.type, t * p.q_a.stride[0] + h * p.q_a.stride[1] + i)
                   : load(p.q_b.data, p.q_b.type, t * p.q_b.stride[0] + h * p.q_b.stride[1] + i - n_a);
  for (int i = threadIdx.x; i < n_v; i += kThreads) sums[i] = 0;
  const Span span = span_of(seqs, t);
  float top = -INFINITY, total = 0;
  __syncthreads();
  for (int first = 0; first < span.keys; first += kKeys) {
    const int count = min(kKeys, span.keys - first);
    for (int j = warp; j < count; j += kWarps) {
      const Key key = keys.key(seqs, span.sequence, first + j, h);
      float dot = 0;
      for (int i = lane; i < n_a; i += 32) dot += q[i] * load(p.a, p.a_type, key.a + i);
      for (int i = lane; i < n_b; i += 32) dot += q[n_a + i] * load(p.b, p.b_type, key.b + i);
      dot = warp_sum(dot);
      if (lane == 0) scores[j] = p.scale * dot;
    }
    __syncthreads();
    const float new_top = fmaxf(top, block_max(threadIdx.x < count ? scores[threadIdx.x] : -INFINITY, shared));
    const float weight = threadIdx.x < count ? expf(scores[threadIdx.x] - new_top) : 0;
    const float shrink = expf(top - new_top);
    __syncthreads();
    if (threadIdx.x < count) scores[threadIdx.x] = weight;
    total = total * shrink + block_sum(weight, shared);
    top = new_top;
    for (int i = threadIdx.x; i < n_v; i += kThreads) {
      float sum = sums[i] * shrink;
      for (int j = 0; j < count; ++j)
        sum += scores[j] * load(p.v, p.a_type, keys.key(seqs, span.sequence, first + j, h).v + i);
      sums[i] = sum;
    }
    __syncthreads();
  }
  for (int i = threadIdx.x; i < n_v; i += kThreads)
    store(p.o.data, p.o.type, t * p.o.stride[0] + h * p.o.stride[1] + i, span.keys > 0 ? sums[i] / total : 0);
}

template <typename Keys>
void attend(Stream& s, const Attention& p, const Keys& keys, const Sequences& seqs) {
  if (p.o.dim[0] == 0 || p.o.dim[1] == 0) return;
  const auto bytes = static_cast<std::size_t>(p.q_a.dim[2] + p.q_b.dim[2] + p.o.dim[2] + kKeys) * sizeof(float);
  const dim3 grid(static_cast<unsigned>(p.o.dim[0]), static_cast<unsigned>(p.o.dim[1]));
  launch(attend_kernel<Keys>, {"attend", grid, kThreads, bytes}, s, p, keys, seqs);
}

}  // namespace

void rope(Stream& s, const Array& x, const float* freqs, const std::int32_t* positions) {
  const i64 items = x.dim[0] * x.dim[1] * (x.dim[2] / 2);
  if (items == 0) return;
  launch(rope_kernel, {"rope", ceil_div(items, 256), 256}, s, x, freqs, positions);
}

void store_latent(Stream& s, const Cache& cache, const Array& kv, const Array& k_pe, const std::int32_t* slots) {
  if (kv.dim[0] == 0) return;
  launch(store_latent_kernel, {"store_latent", static_cast<unsigned>(kv.dim[0]), 128}, s, cache, kv, k_pe, slots);
}

void gather_latent(Stream& s, const Array& y, const Cache& cache, const Sequences& seqs) {
  if (y.dim[0] == 0) return;
  launch(gather_latent_kernel, {"gather_latent", static_cast<unsigned>(y.dim[0]), 128}, s, y, cache, seqs);
}

void attend_latent_simple(Stream& s, const Array& o, const Array& q_c, const Array& q_pe, const Cache& cache,
                          const Sequences& seqs, float scale) {
  attend(s, {o, q_c, q_pe, cache.data, cache.data, cache.data, cache.type, cache.type, scale}, LatentKeys{cache}, seqs);
}

void attend_expanded_simple(Stream& s, const Array& o, const Array& q, const Expanded& keys, const Sequences& seqs,
                            float scale) {
  const i64 rope = keys.k_pe.dim[1], nope = q.dim[2] - rope;
  Array q_a = q, q_b = q;
  q_a.dim[2] = nope;
  q_b.dim[2] = rope;
  q_b.data = static_cast<char*>(q.data) + nope * (q.type == Type::f32 ? 4 : 2);
  attend(s, {o, q_a, q_b, keys.kv.data, keys.k_pe.data, keys.kv.data, keys.kv.type, keys.k_pe.type, scale},
         ExpandedKeys{keys.kv, keys.k_pe, nope}, seqs);
}

}  // namespace fathom::cuda
