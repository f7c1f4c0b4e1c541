// Attention of prompts on Hopper, keys and values of each head at hand: 128 + 64 key entries, 128 value entries.
//
// A block has 128 tokens of one sequence and head: two warpgroups of 64 tokens each, and a producer that copies tiles
// of 128 keys. The scores of a tile are computed while the values of the tile before are summed; softmax is online.
// A token that is not finite spoils the block's others of its own sequence, never another sequence.
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/sm90/instructions.cuh"
#include "kernels/cuda/sm90/tile_map.h"

namespace fathom::cuda {
namespace {

constexpr int kTokens = 128, kKeys = 128, kTile = 128 * 128;  // bytes of 64 columns of 128 rows
constexpr int kQ = 0, kK = 3 * kTile, kV = kK + 2 * 3 * kTile, kBarriers = kV + 2 * 2 * kTile,
              kLimits = kBarriers + 128, kBytes = kLimits + kTokens * 4 + 16 + 1024;

struct Plan {
  __nv_bfloat16* o;  // [T, H, 128]
  i64 o_stride, o_head;
  Sequences seqs;
  float scale;  // times log2(e)
};

struct AttendMaps {
  CUtensorMap q, kv, k_pe;
};

// Up to 128 tokens of one sequence; sequence -1: tokens after the last, whose output is zero; count 0: none.
struct Queries {
  int sequence, begin, count;
};

// Unused, as the two below, where the kernel is compiled for other architectures than Hopper.
[[maybe_unused]] __device__ Queries queries_of(const Sequences& seqs, int n) {
  for (int s = 0; s <= seqs.count; ++s) {
    const int begin = seqs.seq_starts[s], end = s < seqs.count ? seqs.seq_starts[s + 1] : static_cast<int>(seqs.tokens),
              tiles = (end - begin + kTokens - 1) / kTokens;
    if (n < tiles) return {s < seqs.count ? s : -1, begin + n * kTokens, min(kTokens, end - begin - n * kTokens)};
    n -= tiles;
  }
  return {-1, 0, 0};
}

__device__ std::uint32_t barrier_of(std::uint32_t memory, int which,
                                    int stage) {  // 0 K full, 1 K empty, 2 V full, 3 V empty
  return memory + kBarriers + 16 + which * 16 + stage * 8;
}

[[maybe_unused]] __device__ void produce(std::uint32_t memory, const AttendMaps& maps, const Queries& queries,
                                         int first_key, int key_tiles) {
  const int head = static_cast<int>(blockIdx.x);
  const std::uint32_t q_full = memory + kBarriers;
  barrier_expect(q_full, 3 * kTile);
  for (int i = 0; i < 3; ++i) copy_tile(memory + kQ + i * kTile, maps.q, q_full, i * 64, head, queries.begin);
  for (int j = 0; j < key_tiles; ++j) {
    const int stage = j % 2, key = first_key + j * kKeys;
    const std::uint32_t parity = (j / 2 & 1) ^ 1, k = memory + kK + stage * 3 * kTile,
                        v = memory + kV + stage * 2 * kTile, k_full = barrier_of(memory, 0, stage),
                        v_full = barrier_of(memory, 2, stage);
    barrier_wait(barrier_of(memory, 1, stage), parity);
    barrier_expect(k_full, 3 * kTile);
    copy_tile(k, maps.kv, k_full, 0, head, key);
    copy_tile(k + kTile, maps.kv, k_full, 64, head, key);
    copy_tile(k + 2 * kTile, maps.k_pe, k_full, 0, key);
    barrier_wait(barrier_of(memory, 3, stage), parity);
    barrier_expect(v_full, 2 * kTile);
    copy_tile(v, maps.kv, v_full, 128, head, key);
    copy_tile(v + kTile, maps.kv, v_full, 192, head, key);
  }
}

// What a thread holds of rows g and g + 8 of its warp's 16: 64 scores, 64 sums, and for each row top and total.
struct State {
  float sums[64] = {};
  float top[2] = {-INFINITY, -INFINITY}, total[2] = {};
};

__device__ inline float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Scores to weights 2^(score - top); returns in `shrink` what earlier sums are to be multiplied by.
__device__ inline void softmax(float (&s)[64], State& state, const int (&limit)[2], int key0, float scale,
                               float (&shrink)[2]) {
  const int column = key0 + static_cast<int>(threadIdx.x % 4) * 2;
  if (key0 + kKeys > min(limit[0], limit[1])) {
#pragma unroll
    for (int i = 0; i < 64; ++i)
      if (column + i / 4 * 8 + i % 2 >= limit[i / 2 % 2]) s[i] = -INFINITY;
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float top = state.top[h];
#pragma unroll
    for (int j = 0; j < 16; ++j) top = fmaxf(top, fmaxf(s[4 * j + 2 * h], s[4 * j + 2 * h + 1]));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
    const float base = top == -INFINITY ? 0 : top * scale;
    shrink[h] = power_of_two(state.top[h] * scale - base);
    state.top[h] = top;
    float total = 0;
#pragma unroll
    for (int j = 0; j < 16; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& weight = s[4 * j + 2 * h + e];
        weight = power_of_two(weight * scale - base);
        total += weight;
      }
    state.total[h] = state.total[h] * shrink[h] + total;
  }
}

__device__ inline void to_bf16(std::uint32_t (&p)[8][4], const float (&s)[64]) {
#pragma unroll
  for (int i = 0; i < 32; ++i) p[i / 4][i % 4] = pack_bf16(s[2 * i], s[2 * i + 1]);
}

__device__ inline void score(float (&s)[64], std::uint32_t q, std::uint32_t k) {
  hold(s);
  mma_begin();
#pragma unroll
  for (int i = 0; i < 12; ++i)
    Mma<128>::bf16<0, 0>(s, tile_descriptor(q + i / 4 * kTile) + i % 4 * 2,
                         tile_descriptor(k + i / 4 * kTile) + i % 4 * 2, i > 0);
  mma_commit();
}

__device__ inline void sum_values(State& state, const std::uint32_t (&p)[8][4], std::uint32_t v) {
  hold(state.sums);
  mma_begin();
#pragma unroll
  for (int i = 0; i < 8; ++i)
    Mma<128>::bf16_registers<1>(state.sums, p[i], tile_descriptor(v, kTile) + i * (2048 / 16), true);
  mma_commit();
}

// Zeroes the values of a tile from row `first` on, which are those of other sequences: their weights are 0, but 0 times
// NaN is NaN. A row's 128 bytes of each half stay together, however their parts are swizzled.
__device__ inline void clear_values(char* v, int first) {
  for (int i = static_cast<int>(threadIdx.x); i < (kKeys - first) * 16; i += 256)
    *reinterpret_cast<uint4*>(v + i / 8 % 2 * kTile + (first + i / 16) * 128 + i % 8 * 16) = {};
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  asm volatile("bar.sync 1, 256;" ::: "memory");  // both warpgroups read all of it
}

__device__ inline void release(std::uint32_t barrier) {
  if (threadIdx.x % 32 == 0) barrier_arrive(barrier);
}

__device__ void save(const State& state, const Plan& p, const Queries& queries, int row) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float total = state.total[h];
    total += __shfl_xor_sync(0xffffffffu, total, 1);
    total += __shfl_xor_sync(0xffffffffu, total, 2);
    if (row + 8 * h >= queries.count) continue;
    const float inverse = 1 / total;
    auto* o = p.o + (queries.begin + row + 8 * h) * p.o_stride + blockIdx.x * p.o_head + threadIdx.x % 4 * 2;
#pragma unroll
    for (int j = 0; j < 16; ++j)
      *reinterpret_cast<std::uint32_t*>(o + j * 8) =
          pack_bf16(state.sums[4 * j + 2 * h] * inverse, state.sums[4 * j + 2 * h + 1] * inverse);
  }
}

[[maybe_unused]] __device__ void consume(std::uint32_t memory, char* base, const int* limits, const Plan& p,
                                         const Queries& queries, int key_tiles) {
  const int row = static_cast<int>(threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4);
  const int limit[2] = {limits[row], limits[row + 8]};
  const std::uint32_t q = memory + kQ + threadIdx.x / 128 * 8192;
  State state;
  float s[64] = {}, shrink[2];
  std::uint32_t weights[8][4];
  barrier_wait(memory + kBarriers, 0);
  barrier_wait(barrier_of(memory, 0, 0), 0);
  score(s, q, memory + kK);
  mma_wait<0>();
  hold(s);
  release(barrier_of(memory, 1, 0));
  softmax(s, state, limit, 0, p.scale, shrink);
  to_bf16(weights, s);
  for (int j = 1; j < key_tiles; ++j) {
    const int stage = j % 2, last = stage ^ 1;
    barrier_wait(barrier_of(memory, 0, stage), j / 2 & 1);
    score(s, q, memory + kK + stage * 3 * kTile);
    barrier_wait(barrier_of(memory, 2, last), (j - 1) / 2 & 1);
    sum_values(state, weights, memory + kV + last * 2 * kTile);
    mma_wait<1>();
    hold(s);
    release(barrier_of(memory, 1, stage));
    softmax(s, state, limit, j * kKeys, p.scale, shrink);
    mma_wait<0>();
    hold(state.sums);
    release(barrier_of(memory, 3, last));
#pragma unroll
    for (int i = 0; i < 64; ++i) state.sums[i] *= shrink[i / 2 % 2];
    to_bf16(weights, s);
  }
  const int last = (key_tiles - 1) % 2;
  barrier_wait(barrier_of(memory, 2, last), (key_tiles - 1) / 2 & 1);
  if (const int seen = limits[kTokens] - (key_tiles - 1) * kKeys; seen < kKeys)
    clear_values(base + kV + last * 2 * kTile, seen);
  sum_values(state, weights, memory + kV + last * 2 * kTile);
  mma_wait<0>();
  hold(state.sums);
  save(state, p, queries, row);
}

__global__ void __launch_bounds__(384, 1)
    attend_kernel(const __grid_constant__ AttendMaps maps, const __grid_constant__ Plan p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) char attend_memory[];
  char* base = attend_memory + (1024 - shared_address(attend_memory) % 1024) % 1024;
  const std::uint32_t memory = shared_address(base);
  auto* limits = reinterpret_cast<int*>(base + kLimits);
  // The longest first: the last tiles of a sequence see most keys.
  const Queries queries = queries_of(p.seqs, static_cast<int>(gridDim.y - 1 - blockIdx.y));
  if (queries.count == 0) return;
  if (queries.sequence < 0) {
    for (int i = threadIdx.x; i < queries.count * 64; i += blockDim.x)
      *reinterpret_cast<std::uint32_t*>(p.o + (queries.begin + i / 64) * p.o_stride + blockIdx.x * p.o_head +
                                        i % 64 * 2) = 0;
    return;
  }
  if (threadIdx.x == 0) {
    limits[kTokens] = 0;
    barrier_init(memory + kBarriers, 1);
    for (int stage = 0; stage < 2; ++stage)
      for (int which = 0; which < 4; ++which) barrier_init(barrier_of(memory, which, stage), which % 2 == 0 ? 1 : 8);
    barriers_visible();
  }
  __syncthreads();
  if (threadIdx.x < kTokens) {
    const int keys = static_cast<int>(threadIdx.x) < queries.count
                         ? min(p.seqs.positions[queries.begin + threadIdx.x] + 1, p.seqs.context_lens[queries.sequence])
                         : 0;
    limits[threadIdx.x] = keys;
    atomicMax(&limits[kTokens], keys);
  }
  __syncthreads();
  const int key_tiles = max(1, (limits[kTokens] + kKeys - 1) / kKeys);
  if (threadIdx.x >= 256) {
    fewer_registers<40>();
    if (threadIdx.x == 256) produce(memory, maps, queries, p.seqs.context_starts[queries.sequence], key_tiles);
  } else {
    more_registers<232>();
    consume(memory, base, limits, p, queries, key_tiles);
  }
#endif
}

bool aligned(const Array& x, int strides) {
  bool even = reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0;
  for (int d = 0; d < strides; ++d) even = even && x.stride[d] % 8 == 0;
  return even;
}

}  // namespace

bool attend_prompt_fits(const Array& o, const Array& q, const Expanded& keys) {
  return o.type == Type::bf16 && q.type == Type::bf16 && keys.kv.type == Type::bf16 && keys.k_pe.type == Type::bf16 &&
         q.dim[2] == 192 && keys.k_pe.dim[1] == 64 && keys.kv.dim[2] == 256 && aligned(o, 2) && aligned(q, 2) &&
         aligned(keys.kv, 2) && aligned(keys.k_pe, 1) && q.dim[0] > 0 && keys.kv.dim[0] > 0;
}

void attend_prompt(Stream& s, const Array& o, const Array& q, const Expanded& keys, const Sequences& seqs,
                   float scale) {
  AttendMaps maps;
  const i64 tokens = q.dim[0], heads = q.dim[1], total = keys.kv.dim[0];
  maps.q = map_of(s.device,
                  {q.data, Type::bf16, 3, {192, heads, tokens}, {q.stride[1] * 2, q.stride[0] * 2}, {64, 1, 128}, 128});
  maps.kv = map_of(s.device, {keys.kv.data,
                              Type::bf16,
                              3,
                              {256, heads, total},
                              {keys.kv.stride[1] * 2, keys.kv.stride[0] * 2},
                              {64, 1, 128},
                              128});
  maps.k_pe = map_of(s.device, {keys.k_pe.data, Type::bf16, 2, {64, total}, {keys.k_pe.stride[0] * 2}, {64, 128}, 128});
  const Plan plan{static_cast<__nv_bfloat16*>(o.data), o.stride[0], o.stride[1], seqs, scale * 1.44269504f};
  const dim3 grid(static_cast<unsigned>(heads), static_cast<unsigned>(ceil_div(tokens, kTokens) + seqs.count + 1));
  launch(attend_kernel, {"attend_prompt", grid, 384, kBytes}, s, maps, plan);
}

}  // namespace fathom::cuda
