// Absorbed attention over the paged latent cache: a block takes 16 heads of one token and a part of its context, a
// second kernel adds the parts up. Keys and values are the same rows, read once from memory into shared memory.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/small.cuh"

namespace fathom::cuda {
namespace {

constexpr int kRank = 512, kRope = 64, kWidth = kRank + kRope, kHeads = 16, kKeys = 32, kWarps = 4;
constexpr int kStride = kWidth + 8;  // of rows in shared memory: 16 bytes more, so that 8 rows meet 8 bank groups
constexpr int kPStride = kKeys + 8;
constexpr int kLeastTiles = 2;  // key tiles a part has at least, so that short contexts make few parts

struct Shared {
  __nv_bfloat16 q[kHeads][kStride];
  __nv_bfloat16 keys[2][kKeys][kStride];
  __nv_bfloat16 p[kHeads][kPStride];
  float top[kWarps][kHeads], total[kWarps][kHeads];
};

__device__ std::uint32_t address(const void* p) { return static_cast<std::uint32_t>(__cvta_generic_to_shared(p)); }

__device__ void matrices(std::uint32_t (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address(p)));
}
__device__ void matrices_transposed(std::uint32_t (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address(p)));
}

// 16 bytes into shared memory, or zeros.
__device__ void copy16(void* to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(address(to)), "l"(from),
               "r"(there ? 16 : 0));
}

// How a token's context is divided: `parts` runs of `tiles` key tiles.
struct Division {
  int tiles, parts;
};
__device__ Division divide(int keys, int splits) {
  const int tiles = (keys + kKeys - 1) / kKeys;
  const int each = max(kLeastTiles, (tiles + splits - 1) / splits);
  return {each, (tiles + each - 1) / each};
}

constexpr int kThreads = kWarps * 32, kPairs = kHeads * (kRope / 2) / kThreads;

// A thread's share of the rotary part of 16 heads: pair (i % 32) of head (i / 32), i = thread + kThreads j.
struct Angles {
  float2 at;  // all of a thread's pairs have the same place in their heads
  bool rotate;
};
__device__ Angles load_angles(const SmallMla& p, int t) {
  if (p.freqs == nullptr) return {{1, 0}, false};
  const i64 row = static_cast<i64>(p.seqs.positions[t]) * (kRope / 2) + threadIdx.x % (kRope / 2);
  return {reinterpret_cast<const float2*>(p.freqs)[row], true};
}

// The queries of 16 heads into shared memory, rotated if they are not yet.
__device__ void load_queries(const SmallMla& p, Shared& m, int t, int head0, const Angles& angles) {
#pragma unroll
  for (int j = 0; j < kHeads * (kRank / 8) / kThreads; ++j) {
    const int i = static_cast<int>(threadIdx.x) + j * kThreads, h = i / (kRank / 8), k = i % (kRank / 8) * 8;
    const bool there = head0 + h < p.heads;
    const auto* row =
        static_cast<const __nv_bfloat16*>(p.q_c) + (there ? t * p.q_c_stride + (head0 + h) * p.q_c_head : 0);
    copy16(&m.q[h][k], row + k, there);
  }
  asm volatile("cp.async.commit_group;");
  std::uint32_t raw[kPairs];
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    const int h = static_cast<int>(threadIdx.x) / (kRope / 2) + j * kThreads / (kRope / 2),
              pair = threadIdx.x % (kRope / 2);
    const auto* row = static_cast<const __nv_bfloat16*>(p.q_pe) + t * p.q_pe_stride + (head0 + h) * p.q_pe_head;
    raw[j] = head0 + h < p.heads ? *reinterpret_cast<const std::uint32_t*>(row + 2 * pair) : 0;
  }
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    const int h = static_cast<int>(threadIdx.x) / (kRope / 2) + j * kThreads / (kRope / 2),
              pair = threadIdx.x % (kRope / 2);
    const float re = __uint_as_float(raw[j] << 16), im = __uint_as_float(raw[j] & 0xffff0000u);
    *reinterpret_cast<std::uint32_t*>(&m.q[h][kRank + 2 * pair]) =
        angles.rotate ? pack_bf16(re * angles.at.x - im * angles.at.y, re * angles.at.y + im * angles.at.x) : raw[j];
  }
}

// A tile of keys; each warp looks up the places of its 8 rows at once.
__device__ void load_keys(const SmallMla& p, Shared& m, int buffer, int sequence, int first, int keys) {
  constexpr int kPieces = kWidth / 8, kRows = kKeys / kWarps;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int mine = first + warp * kRows + lane % kRows;
  const i64 slot = mine < keys ? cache_slot(p.seqs, p.cache, sequence, mine) : -1;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const i64 at = __shfl_sync(0xffffffffu, slot, r);
    const auto* from = static_cast<const __nv_bfloat16*>(p.cache.data) + (at < 0 ? 0 : at * kWidth);
    __nv_bfloat16* to = m.keys[buffer][warp * kRows + r];
#pragma unroll
    for (int i = 0; i < kPieces; i += 32)
      if (i + lane < kPieces) copy16(to + (i + lane) * 8, from + (i + lane) * 8, at >= 0);
  }
  asm volatile("cp.async.commit_group;");
}

// Scores of 16 heads with this warp's 8 keys: rows g, g + 8, columns 2c, 2c + 1.
__device__ void score(float (&s)[4], const Shared& m, int buffer) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const __nv_bfloat16* q = &m.q[lane % 16][lane / 16 * 8];
  const __nv_bfloat16* k = &m.keys[buffer][warp * 8 + lane % 8][lane / 8 * 8];
  float other[4] = {};
#pragma unroll 3
  for (int at = 0; at < kWidth; at += 32) {
    std::uint32_t a[4], b[4], keys[4];
    matrices(a, q + at);
    matrices(b, q + at + 16);
    matrices(keys, k + at);
    mma_bf16(s, a[0], a[1], a[2], a[3], keys[0], keys[1]);
    mma_bf16(other, b[0], b[1], b[2], b[3], keys[2], keys[3]);
  }
  for (int i = 0; i < 4; ++i) s[i] += other[i];
}

// o += p v for this warp's 128 columns of the latent.
__device__ void add_values(float (&o)[16][4], const Shared& m, int buffer) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int k = 0; k < kKeys; k += 16) {
    std::uint32_t a[4];
    matrices(a, &m.p[lane % 16][k + lane / 16 * 8]);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      std::uint32_t v[4];
      matrices_transposed(v, &m.keys[buffer][k + lane % 16][warp * 128 + n * 16 + lane / 16 * 8]);
      mma_bf16(o[2 * n], a[0], a[1], a[2], a[3], v[0], v[1]);
      mma_bf16(o[2 * n + 1], a[0], a[1], a[2], a[3], v[2], v[3]);
    }
  }
}

// Block (part, token, group of 16 heads).
__global__ void __launch_bounds__(kWarps * 32) mla_split_kernel(const SmallMla p) {
  extern __shared__ __align__(16) char memory[];
  Shared& m = *reinterpret_cast<Shared*>(memory);
  let_next_start();
  const int t = static_cast<int>(blockIdx.y), head0 = static_cast<int>(blockIdx.z) * kHeads,
            part = static_cast<int>(blockIdx.x);
  const Span span = span_of(p.seqs, t);
  const Division division = divide(span.keys, p.splits);
  if (part >= division.parts) wait_for_previous();
  if (p.splits == 1 && division.parts == 0)  // padding
    for (int i = threadIdx.x; i < kHeads * kRank / 2; i += blockDim.x)
      if (head0 + i / (kRank / 2) < p.heads)
        reinterpret_cast<std::uint32_t*>(p.o_c)[((static_cast<i64>(t) * p.heads + head0) * kRank) / 2 + i] = 0;
  if (part >= division.parts) return;
  const int begin = part * division.tiles * kKeys, end = min(span.keys, begin + division.tiles * kKeys);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, c = lane % 4;
  // Where tokens stand was written long before the previous kernel; so were all keys but those of this pass.
  const bool old = end <= p.seqs.positions[p.seqs.seq_starts[span.sequence]];
  const Angles angles = load_angles(p, t);
  if (!old) wait_for_previous();
  load_keys(p, m, 0, span.sequence, begin, end);
  if (old) wait_for_previous();
  load_queries(p, m, t, head0, angles);
  const float scale = p.scale * 1.44269504f;  // exp2 from here on
  float o[16][4] = {}, top[2] = {-INFINITY, -INFINITY}, total[2] = {};
  for (int first = begin, buffer = 0; first < end; first += kKeys, buffer ^= 1) {
    if (first + kKeys < end) {
      load_keys(p, m, buffer ^ 1, span.sequence, first + kKeys, end);
      asm volatile("cp.async.wait_group 1;");
    } else {
      asm volatile("cp.async.wait_group 0;");
    }
    __syncthreads();
    float s[4] = {};
    score(s, m, buffer);
    for (int i = 0; i < 4; ++i) s[i] = first + warp * 8 + 2 * c + (i & 1) < end ? s[i] * scale : -INFINITY;
    float high[2] = {fmaxf(s[0], s[1]), fmaxf(s[2], s[3])};
    for (int r = 0; r < 2; ++r) {
      high[r] = fmaxf(high[r], __shfl_xor_sync(0xffffffffu, high[r], 1));
      high[r] = fmaxf(high[r], __shfl_xor_sync(0xffffffffu, high[r], 2));
      if (c == 0) m.top[warp][g + 8 * r] = high[r];
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float best = top[r];
      for (int w = 0; w < kWarps; ++w) best = fmaxf(best, m.top[w][g + 8 * r]);
      const float shrink = exp2f(top[r] - best), a = exp2f(s[2 * r] - best), b = exp2f(s[2 * r + 1] - best);
      top[r] = best;
      total[r] = total[r] * shrink + a + b;
      *reinterpret_cast<std::uint32_t*>(&m.p[g + 8 * r][warp * 8 + 2 * c]) = pack_bf16(a, b);
#pragma unroll
      for (int n = 0; n < 16; ++n) o[n][2 * r] *= shrink, o[n][2 * r + 1] *= shrink;
    }
    __syncthreads();
    add_values(o, m, buffer);
    __syncthreads();
  }
  for (int r = 0; r < 2; ++r) {
    total[r] += __shfl_xor_sync(0xffffffffu, total[r], 1);
    total[r] += __shfl_xor_sync(0xffffffffu, total[r], 2);
    if (c == 0) m.total[warp][g + 8 * r] = total[r];
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int head = head0 + g + 8 * r;
    if (head >= p.heads) continue;
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += m.total[w][g + 8 * r];
    const float inverse = 1 / sum;
    const i64 at = (static_cast<i64>(t) * p.heads + head) * p.splits + part;
    if (p.splits == 1) {
      auto* to = static_cast<__nv_bfloat16*>(p.o_c) + at * kRank + warp * 128 + 2 * c;
      for (int n = 0; n < 16; ++n)
        *reinterpret_cast<std::uint32_t*>(to + n * 8) = pack_bf16(o[n][2 * r] * inverse, o[n][2 * r + 1] * inverse);
      continue;
    }
    if (warp == 0 && c == 0) p.sums[at] = top[r] + log2f(sum);
    float* to = p.parts + at * kRank + warp * 128 + 2 * c;
    for (int n = 0; n < 16; ++n) *reinterpret_cast<float2*>(to + n * 8) = {o[n][2 * r] / sum, o[n][2 * r + 1] / sum};
  }
}

// Block (token, head): the weighted mean of the parts.
__global__ void __launch_bounds__(128) mla_combine_kernel(const SmallMla p) {
  let_next_start();
  wait_for_previous();
  const int t = static_cast<int>(blockIdx.x) / p.heads;
  const int parts = divide(span_of(p.seqs, t).keys, p.splits).parts;
  const float* sums = p.sums + static_cast<i64>(blockIdx.x) * p.splits;
  const float* from = p.parts + static_cast<i64>(blockIdx.x) * p.splits * kRank + threadIdx.x * 4;
  float top = -INFINITY, total = 0;
  for (int i = 0; i < parts; ++i) top = fmaxf(top, sums[i]);
  float4 o{};
#pragma unroll 4
  for (int i = 0; i < parts; ++i) {
    const float weight = exp2f(sums[i] - top);
    const float4 x = *reinterpret_cast<const float4*>(from + static_cast<i64>(i) * kRank);
    total += weight;
    o.x += weight * x.x, o.y += weight * x.y, o.z += weight * x.z, o.w += weight * x.w;
  }
  const float factor = parts > 0 ? 1 / total : 0;
  *reinterpret_cast<uint2*>(static_cast<__nv_bfloat16*>(p.o_c) + static_cast<i64>(blockIdx.x) * kRank +
                            threadIdx.x * 4) = {pack_bf16(o.x * factor, o.y * factor),
                                                pack_bf16(o.z * factor, o.w * factor)};
}

}  // namespace

void mla_attend(cudaStream_t s, const SmallMla& p) {
  const dim3 grid(static_cast<unsigned>(p.splits), static_cast<unsigned>(p.tokens),
                  static_cast<unsigned>((p.heads + kHeads - 1) / kHeads));
  launch_early(mla_split_kernel, "mla_split", grid, kWarps * 32, sizeof(Shared), s, p);
  if (p.splits > 1)
    launch_early(mla_combine_kernel, "mla_combine", static_cast<unsigned>(p.tokens * p.heads), 128, 0, s, p);
}

}  // namespace fathom::cuda
