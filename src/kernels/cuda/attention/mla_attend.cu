// Absorbed attention over the paged latent cache: a block takes 16 heads of one token and a part of its context; what
// follows adds the parts up (mla_values.cu). Keys and values are the same rows, read once from memory into shared
// memory.
#include "kernels/cuda/attention/context.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear/gemv_mainloop.cuh"

namespace fathom::cuda {
namespace {

constexpr int kRope = 64, kWidth = kRank + kRope, kHeads = 16, kKeys = 64, kWarps = 8, kThreads = kWarps * 32;
constexpr int kStride = kWidth + 8;  // of rows in shared memory: 16 bytes more, so that 8 rows meet 8 bank groups
constexpr int kPStride = kKeys + 8;
static_assert(kKeys == kPartKeys);

// With one buffer of keys two blocks fit in a multiprocessor, with two the next tile arrives during the work on one.
template <int kBuffers>
struct Shared {
  __nv_bfloat16 q[kHeads][kStride];
  __nv_bfloat16 keys[kBuffers][kKeys][kStride];
  __nv_bfloat16 p[kHeads][kPStride];
  float top[kHeads][kWarps], total[kHeads][kWarps];
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

__device__ void copy16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(address(to)), "l"(from));
}

// The queries of 16 heads into shared memory, rotated if they are not yet. Past the last head it is repeated.
__device__ void load_queries(const MlaArgs& p, __nv_bfloat16 (&q)[kHeads][kStride], int t, int head0, float2 angle) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int j = 0; j < kHeads / 4; ++j) {
    const int h = warp / 2 + 4 * j, k = (threadIdx.x % 64) * 8, head = min(head0 + h, p.heads - 1);
    copy16(&q[h][k], static_cast<const __nv_bfloat16*>(p.q_c) + t * p.q_c_stride + head * p.q_c_head + k);
  }
  asm volatile("cp.async.commit_group;");
  std::uint32_t raw[kHeads / kWarps];
#pragma unroll
  for (int j = 0; j < kHeads / kWarps; ++j) {
    const int head = min(head0 + warp + kWarps * j, p.heads - 1);
    raw[j] = reinterpret_cast<const std::uint32_t*>(static_cast<const __nv_bfloat16*>(p.q_pe) + t * p.q_pe_stride +
                                                    head * p.q_pe_head)[lane];
  }
#pragma unroll
  for (int j = 0; j < kHeads / kWarps; ++j) {
    const float re = __uint_as_float(raw[j] << 16), im = __uint_as_float(raw[j] & 0xffff0000u);
    *reinterpret_cast<std::uint32_t*>(&q[warp + kWarps * j][kRank + 2 * lane]) =
        p.freqs == nullptr ? raw[j] : pack_bf16(re * angle.x - im * angle.y, re * angle.y + im * angle.x);
  }
}

// A tile of keys; each warp looks up the places of its 8 rows at once. Past the last key it is repeated.
__device__ void load_keys(const MlaArgs& p, __nv_bfloat16 (&keys)[kKeys][kStride], const std::int32_t* table, int first,
                          int end) {
  constexpr int kRows = kKeys / kWarps;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const auto position = static_cast<unsigned>(min(first + warp * kRows + lane % kRows, end - 1)),
             size = static_cast<unsigned>(p.cache.block_size), block = position / size;
  const unsigned slot = static_cast<unsigned>(table[block]) * size + (position - block * size);
  const auto* rows = static_cast<const char*>(p.cache.data);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const char* from = rows + static_cast<std::uint64_t>(__shfl_sync(0xffffffffu, slot, r)) * (kWidth * 2) + lane * 16;
    __nv_bfloat16* to = &keys[warp * kRows + r][lane * 8];
    copy16(to, from);
    copy16(to + 256, from + 512);
  }
#pragma unroll
  for (int r = 0; r < kRows; r += 4) {  // the rotary parts of four rows at once
    const char* from = rows + static_cast<std::uint64_t>(__shfl_sync(0xffffffffu, slot, r + lane / 8)) * (kWidth * 2);
    copy16(&keys[warp * kRows + r + lane / 8][kRank + lane % 8 * 8], from + kRank * 2 + lane % 8 * 16);
  }
  asm volatile("cp.async.commit_group;");
}

// Scores of 16 heads with this warp's 8 keys: rows g, g + 8, columns 2c, 2c + 1. Four sums, so that products overlap.
template <int kBuffers>
__device__ void score(float (&s)[4], const Shared<kBuffers>& m, int buffer) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const __nv_bfloat16* q = &m.q[lane % 16][lane / 16 * 8];
  const __nv_bfloat16* k = &m.keys[buffer][warp * 8 + lane % 8][lane / 8 * 8];
  float sums[4][4] = {};
#pragma unroll
  for (int at = 0; at < kWidth; at += 64) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      std::uint32_t a[4], b[4], keys[4];
      matrices(a, q + at + half * 32);
      matrices(b, q + at + half * 32 + 16);
      matrices(keys, k + at + half * 32);
      mma_bf16(sums[2 * half], a[0], a[1], a[2], a[3], keys[0], keys[1]);
      mma_bf16(sums[2 * half + 1], b[0], b[1], b[2], b[3], keys[2], keys[3]);
    }
  }
  for (int i = 0; i < 4; ++i) s[i] = (sums[0][i] + sums[1][i]) + (sums[2][i] + sums[3][i]);
}

// o += p v for this warp's 64 columns of the latent.
template <int kBuffers>
__device__ void add_values(float (&o)[8][4], const Shared<kBuffers>& m, int buffer) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int k = 0; k < kKeys; k += 16) {
    std::uint32_t a[4];
    matrices(a, &m.p[lane % 16][k + lane / 16 * 8]);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      std::uint32_t v[4];
      matrices_transposed(v, &m.keys[buffer][k + lane % 16][warp * 64 + n * 16 + lane / 16 * 8]);
      mma_bf16(o[2 * n], a[0], a[1], a[2], a[3], v[0], v[1]);
      mma_bf16(o[2 * n + 1], a[0], a[1], a[2], a[3], v[2], v[3]);
    }
  }
}

// The largest, or the sum, of the eight numbers of a row.
template <typename F>
__device__ float fold(const float (&row)[kWarps], F f) {
  const float4 a = *reinterpret_cast<const float4*>(row), b = *reinterpret_cast<const float4*>(row + 4);
  return f(f(f(a.x, a.y), f(a.z, a.w)), f(f(b.x, b.y), f(b.z, b.w)));
}

// What a warp knows of the softmax: of rows g and g + 8.
struct Softmax {
  float o[8][4] = {}, top[2] = {-INFINITY, -INFINITY}, total[2] = {};
};

template <int kBuffers>
__device__ void add_tile(Softmax& x, Shared<kBuffers>& m, int buffer, int keys, float scale) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, c = lane % 4;
  float s[4];
  score(s, m, buffer);
#pragma unroll
  for (int i = 0; i < 4; ++i) s[i] = warp * 8 + 2 * c + (i & 1) < keys ? s[i] * scale : -INFINITY;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float high = fmaxf(s[2 * r], s[2 * r + 1]);
    high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 1));
    high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 2));
    if (c == 0) m.top[g + 8 * r][warp] = high;
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float best = fmaxf(x.top[r], fold(m.top[g + 8 * r], [](float a, float b) { return fmaxf(a, b); }));
    const float shrink = exp2f(x.top[r] - best), a = exp2f(s[2 * r] - best), b = exp2f(s[2 * r + 1] - best);
    x.top[r] = best;
    x.total[r] = x.total[r] * shrink + a + b;
    *reinterpret_cast<std::uint32_t*>(&m.p[g + 8 * r][warp * 8 + 2 * c]) = pack_bf16(a, b);
#pragma unroll
    for (int n = 0; n < 8; ++n) x.o[n][2 * r] *= shrink, x.o[n][2 * r + 1] *= shrink;
  }
  __syncthreads();
  add_values(x.o, m, buffer);
  __syncthreads();
}

// The part's result: bf16 rows where there is one part only, else float32 rows and the logarithm of their weight.
template <int kBuffers>
__device__ void write_part(const MlaArgs& p, Softmax& x, Shared<kBuffers>& m, int t, int head0, int part) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, c = lane % 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    x.total[r] += __shfl_xor_sync(0xffffffffu, x.total[r], 1);
    x.total[r] += __shfl_xor_sync(0xffffffffu, x.total[r], 2);
    if (c == 0) m.total[g + 8 * r][warp] = x.total[r];
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int head = head0 + g + 8 * r;
    if (head >= p.heads) continue;
    const float sum = fold(m.total[g + 8 * r], [](float a, float b) { return a + b; }), inverse = 1 / sum;
    const i64 at = (static_cast<i64>(t) * p.heads + head) * p.splits + part, column = at * kRank + warp * 64 + 2 * c;
    if (p.splits == 1) {
      auto* to = static_cast<__nv_bfloat16*>(p.o_c) + column;
#pragma unroll
      for (int n = 0; n < 8; ++n)
        *reinterpret_cast<std::uint32_t*>(to + n * 8) = pack_bf16(x.o[n][2 * r] * inverse, x.o[n][2 * r + 1] * inverse);
      continue;
    }
    if (warp == 0 && c == 0) p.sums[at] = x.top[r] + log2f(sum);
#pragma unroll
    for (int n = 0; n < 8; ++n)
      *reinterpret_cast<float2*>(p.parts + column + n * 8) = {x.o[n][2 * r] * inverse, x.o[n][2 * r + 1] * inverse};
  }
}

// Block (part, token, group of 16 heads).
template <int kBuffers>
__global__ void __launch_bounds__(kThreads, 3 - kBuffers) mla_split_kernel(const __grid_constant__ MlaArgs p) {
  extern __shared__ __align__(16) char memory[];
  Shared<kBuffers>& m = *reinterpret_cast<Shared<kBuffers>*>(memory);
  let_next_start();
  const int t = static_cast<int>(blockIdx.y), head0 = static_cast<int>(blockIdx.z) * kHeads,
            part = static_cast<int>(blockIdx.x);
  const Span span = span_of(p.seqs, t);
  const Division division = divide(span.keys, p.splits);
  if (part >= division.parts) {
    wait_for_previous();
    if (p.splits > 1 || division.parts > 0) return;
    for (int i = threadIdx.x; i < kHeads * kRank / 2; i += kThreads)  // padding
      if (head0 + i / (kRank / 2) < p.heads)
        reinterpret_cast<std::uint32_t*>(p.o_c)[((static_cast<i64>(t) * p.heads + head0) * kRank) / 2 + i] = 0;
    return;
  }
  const int begin = part * division.tiles * kKeys, end = min(span.keys, begin + division.tiles * kKeys);
  // Where tokens stand was written long before the previous kernel; so were all keys but those of this pass.
  const bool old = end <= p.seqs.positions[p.seqs.seq_starts[span.sequence]];
  const std::int32_t* table = p.seqs.block_tables + span.sequence * p.seqs.table_stride;
  float2 angle{};
  if (p.freqs != nullptr)
    angle = reinterpret_cast<const float2*>(
        p.freqs)[static_cast<i64>(p.seqs.positions[t]) * (kRope / 2) + threadIdx.x % 32];
  if (!old) wait_for_previous();
  load_keys(p, m.keys[0], table, begin, end);
  if (old) wait_for_previous();
  load_queries(p, m.q, t, head0, angle);
  const float scale = p.scale * 1.44269504f;  // exp2 from here on
  Softmax x;
  for (int first = begin, buffer = 0; first < end; first += kKeys) {
    if (kBuffers > 1 && first + kKeys < end) {
      load_keys(p, m.keys[(buffer + 1) % kBuffers], table, first + kKeys, end);
      asm volatile("cp.async.wait_group 1;");
    } else {
      asm volatile("cp.async.wait_group 0;");
    }
    __syncthreads();
    add_tile(x, m, buffer, end - first, scale);
    buffer = (buffer + 1) % kBuffers;
    if (kBuffers == 1 && first + kKeys < end) load_keys(p, m.keys[0], table, first + kKeys, end);
  }
  write_part(p, x, m, t, head0, part);
}

template <int kBuffers>
void launch(Stream& s, const MlaArgs& p) {
  const dim3 grid(static_cast<unsigned>(p.splits), static_cast<unsigned>(p.tokens),
                  static_cast<unsigned>((p.heads + kHeads - 1) / kHeads));
  launch_early(mla_split_kernel<kBuffers>, "mla_split", grid, kThreads, sizeof(Shared<kBuffers>), s, p);
}

}  // namespace

void mla_attend(Stream& s, const MlaArgs& p) {
  const bool several = p.seqs.max_context > static_cast<i64>(p.splits) * kKeys;
  several&& static_cast<std::size_t>(s.device.shared_bytes) >= sizeof(Shared<2>) ? launch<2>(s, p) : launch<1>(s, p);
}

}  // namespace fathom::cuda
