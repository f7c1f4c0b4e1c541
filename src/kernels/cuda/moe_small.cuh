// Routed experts for up to 64 tokens. Blocks read the chosen indices themselves: nothing is sorted in memory and the
// host knows nothing.
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/small.cuh"

namespace fathom::cuda {

constexpr int kMostExperts = 1024, kMostTokens = 64;

// The distinct experts that the tokens chose, as a bit set in shared memory.
struct Chosen {
  std::uint32_t bits[kMostExperts / 32];

  __device__ void collect(const SmallMoe& p) {
    const int words = (static_cast<int>(p.w1.count) + 31) / 32;
    for (int i = threadIdx.x; i < words; i += blockDim.x) bits[i] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < p.tokens * p.route.top_k; i += blockDim.x) {
      const i64 e = p.route.indices[i] - p.first;
      if (e >= 0 && e < p.w1.count) atomicOr(&bits[e / 32], 1u << e % 32);
    }
    __syncthreads();
  }
  // How many chosen experts come before e.
  __device__ int rank(int e) const {
    int count = __popc(bits[e / 32] & ((1u << e % 32) - 1));
    for (int w = 0; w < e / 32; ++w) count += __popc(bits[w]);
    return count;
  }
  __device__ int count(int experts) const {
    int all = 0;
    for (int w = 0; w < (experts + 31) / 32; ++w) all += __popc(bits[w]);
    return all;
  }
  // The chosen expert of a rank, -1 past the last.
  __device__ int nth(int n, int experts) const {
    for (int w = 0; w < (experts + 31) / 32; ++w) {
      const int here = __popc(bits[w]);
      if (n < here) return w * 32 + static_cast<int>(__fns(bits[w], 0, n + 1));
      n -= here;
    }
    return -1;
  }
};

// A block's expert and the choices (token * top_k + k) that fell on it, in order.
struct ExpertRows {
  Chosen chosen;
  std::int16_t choice[kMostTokens];
  int count;

  // The n-th chosen expert, -1 when there are fewer. All threads of the block take part.
  __device__ int find(const SmallMoe& p, int n) {
    const int top_k = p.route.top_k, choices = p.tokens * top_k;
    if (p.tokens == 1) {
      const i64 index = p.route.indices[n] - p.first;
      if (threadIdx.x == 0) choice[0] = static_cast<std::int16_t>(n), count = 1;
      __syncthreads();
      return index >= 0 && index < p.w1.count ? static_cast<int>(index) : -1;
    }
    chosen.collect(p);
    const int e = chosen.nth(n, static_cast<int>(p.w1.count));
    if (e < 0) return -1;
    if (threadIdx.x < 32) {
      int before = 0;
      for (int base = 0; base < choices; base += 32) {
        const int i = base + static_cast<int>(threadIdx.x);
        const bool mine = i < choices && p.route.indices[i] - p.first == e;
        const unsigned votes = __ballot_sync(0xffffffffu, mine);
        if (mine) choice[before + __popc(votes & ((1u << threadIdx.x) - 1))] = static_cast<std::int16_t>(i);
        before += __popc(votes);
      }
      if (threadIdx.x == 0) count = before;
    }
    __syncthreads();
    return e;
  }
};

// Block (tile, n-th chosen expert). kUp: 8 outputs of hidden = silu(x w1^T) * x w3^T; else 16 outputs of rows = hidden
// w2^T. Tokens are taken 8 kTiles at a time; few experts have more.
template <bool kFp8, bool kUp, int kTiles>
__global__ void __launch_bounds__(256) moe_rows_kernel(const SmallMoe p) {
  extern __shared__ float memory[];
  __shared__ ExpertRows rows;
  let_next_start();
  wait_for_previous();
  const int e = rows.find(p, static_cast<int>(blockIdx.y));
  if (e < 0) return;
  const int first = static_cast<int>(blockIdx.x) * (kUp ? 8 : 16), g = threadIdx.x % 32 / 4, top_k = p.route.top_k;
  const OneMatrix<kFp8> a(kUp ? p.w1 : p.w2, e), b(p.w3, e);
  const TileRows16 w = kUp ? eight_rows(a, b, first) : sixteen_rows(a, first);
  const Parts<kTiles> parts{memory};
  for (int base = 0; base < rows.count; base += 8 * kTiles) {
    Tokens<Rows::bf16, kTiles> tokens{};
    const float* scales[kTiles][2] = {};
    float sums[kTiles][4] = {};
    stream<kFp8>(sums, w, tokens, scales, [&] {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const int slot = min(base + n * 8 + g, rows.count - 1);
        const i64 row = kUp ? rows.choice[slot] / top_k * p.x_stride : rows.choice[slot] * p.w2.in;
        tokens.row[n] = static_cast<const char*>(kUp ? p.x : p.hidden) + row * 2;
      }
    });
    __syncthreads();
    parts.put(sums);
    __syncthreads();
    const int count = min(rows.count - base, 8 * kTiles);
    for (int i = threadIdx.x; i < (kUp ? 8 : 16) * count; i += blockDim.x) {
      const int row = i % (kUp ? 8 : 16), slot = i / (kUp ? 8 : 16), out = first + row;
      if (out >= a.out) continue;
      const i64 at = static_cast<i64>(rows.choice[base + slot]) * a.out + out;
      if constexpr (kUp)
        static_cast<__nv_bfloat16*>(p.hidden)[at] =
            __float2bfloat16_rn(silu(parts.get(row, slot)) * parts.get(row + 8, slot));
      else
        p.rows[at] = parts.get(row, slot);
    }
  }
}

// Block (tile of 16 outputs), up to 8 tokens: y += shared experts and all chosen experts, each token's by its weights.
// Columns are the tokens. The units of all matrices are one list, the shared experts' first: those do not depend on the
// routing.
template <bool kFp8>
class Down {
 public:
  // Where each chosen expert is listed, and each token's choice of it (kNone: not chosen).
  struct Lists {
    static constexpr int kMost = 64;
    Chosen chosen;
    int experts[kMost];
    std::int8_t slots[kMost][8];
  };
  static constexpr std::int8_t kNone = -1;

  __device__ Down(const SmallMoe& p, Lists& lists) : p_(p), lists_(lists), first_(static_cast<int>(blockIdx.x) * 16) {
    shared_units_ = p.shared_w2.out > 0 ? static_cast<int>((p.shared_w2.in + kUnit - 1) / kUnit) : 0;
    expert_units_ = static_cast<int>((p.w2.in + kUnit - 1) / kUnit);
  }

  __device__ void run(float (&sums)[1][4]) {
    const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
    Fetched<kFp8> a, b;
    if (warp < shared_units_) fetch(a, warp);
    if (warp + warps < shared_units_) fetch(b, warp + warps);
    wait_for_previous();
    list_experts();
    const int units = shared_units_ + active_ * expert_units_;
    if (warp >= shared_units_ && warp < units) fetch(a, warp);
    if (warp + warps >= shared_units_ && warp + warps < units) fetch(b, warp + warps);
    for (int u = warp; u < units; u += 2 * warps) {
      add(sums, a, u);
      if (u + 2 * warps < units) fetch(a, u + 2 * warps);
      if (u + warps >= units) break;
      add(sums, b, u + warps);
      if (u + 3 * warps < units) fetch(b, u + 3 * warps);
    }
  }

 private:
  // Which unit of which matrix: rank -1 for the shared ones.
  struct Place {
    int rank, unit;
  };
  __device__ Place place(int u) const {
    if (u < shared_units_) return {-1, u};
    return {(u - shared_units_) / expert_units_, (u - shared_units_) % expert_units_};
  }

  __device__ void fetch(Fetched<kFp8>& to, int u) const {
    const Place at = place(u);
    const OneMatrix<kFp8> w(at.rank < 0 ? p_.shared_w2 : p_.w2, at.rank < 0 ? 0 : lists_.experts[at.rank]);
    to.fetch(sixteen_rows(w, first_), at.unit, at.unit + 1);
  }

  __device__ void list_experts() {
    const int tokens = p_.tokens, top_k = p_.route.top_k;
    if (tokens > 1) {
      lists_.chosen.collect(p_);
      active_ = lists_.chosen.count(static_cast<int>(p_.w2.count));
      for (int i = threadIdx.x; i < active_ * 8; i += blockDim.x) lists_.slots[i / 8][i % 8] = kNone;
      __syncthreads();
    }
    for (int i = threadIdx.x; i < tokens * top_k; i += blockDim.x) {
      const i64 e = p_.route.indices[i] - p_.first;
      const bool here = e >= 0 && e < p_.w2.count;
      if (tokens > 1 && !here) continue;
      const int rank = tokens > 1 ? lists_.chosen.rank(static_cast<int>(e)) : i;
      lists_.experts[rank] = here ? static_cast<int>(e) : 0;
      lists_.slots[rank][i / top_k] = here ? static_cast<std::int8_t>(i % top_k) : kNone;
    }
    if (tokens == 1) active_ = top_k;
    __syncthreads();
  }

  __device__ void add(float (&sums)[1][4], const Fetched<kFp8>& now, int u) const {
    const Place at = place(u);
    const int g = threadIdx.x % 32 / 4, c = threadIdx.x % 4, tokens = p_.tokens, top_k = p_.route.top_k;
    const bool shared = at.rank < 0;
    const i64 width = shared ? p_.shared_w2.in : p_.w2.in;
    const auto slot = [&](int token) { return token < tokens ? (shared ? 0 : lists_.slots[at.rank][token]) : kNone; };
    Tokens<Rows::bf16, 1> x{};
    const int token = min(g, tokens - 1), mine = max(slot(token), 0);
    const i64 row = shared ? token : static_cast<i64>(token) * top_k + mine;
    x.row[0] = static_cast<const char*>(shared ? p_.shared_hidden : p_.hidden) + row * width * 2;
    float part[1][4] = {};
    multiply<kFp8>(part, now.unit, x, at.unit * kUnit, static_cast<int>(width));
    for (int i = 0; i < 2; ++i) {
      const int k = slot(2 * c + i);
      if (k == kNone) continue;  // whatever stands in this column does not count
      const float weight = shared ? 1.0f : p_.route.weights[(2 * c + i) * top_k + k];
      sums[0][i] += part[0][i] * (weight * now.low_scale);
      sums[0][2 + i] += part[0][2 + i] * (weight * now.high_scale);
    }
  }

  const SmallMoe& p_;
  Lists& lists_;
  int first_, shared_units_, expert_units_, active_ = 0;
};

template <bool kFp8>
__global__ void __launch_bounds__(512) moe_down_kernel(const SmallMoe p) {
  extern __shared__ float memory[];
  __shared__ typename Down<kFp8>::Lists lists;
  let_next_start();
  float sums[1][4] = {};
  Down<kFp8>(p, lists).run(sums);
  const Parts<1> parts{memory};
  parts.put(sums);
  __syncthreads();
  const int first = static_cast<int>(blockIdx.x) * 16;
  for (int i = threadIdx.x; i < 16 * p.tokens; i += blockDim.x)
    if (first + i % 16 < p.w2.out) p.y[i / 16 * p.y_stride + first + i % 16] += parts.get(i % 16, i / 16);
}

// Experts that so many tokens can have chosen.
inline int most_chosen(const SmallMoe& p) {
  const i64 choices = static_cast<i64>(p.tokens) * p.route.top_k;
  return static_cast<int>(choices < p.w1.count ? choices : p.w1.count);
}

template <bool kFp8, bool kUp, int kTiles>
void launch_moe_rows(cudaStream_t s, const SmallMoe& p) {
  const Matrix& w = kUp ? p.w1 : p.w2;
  const i64 tiles = kUp ? (w.out + 7) / 8 : (w.out + 15) / 16;
  const int most = most_chosen(p), warps = warps_for(tiles * most, w.in, 2, 8);
  launch_early(moe_rows_kernel<kFp8, kUp, kTiles>, "moe_rows",
               dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(most)), static_cast<unsigned>(warps * 32),
               Parts<kTiles>::bytes(warps), s, p);
}

template <bool kFp8>
void run_moe_up(cudaStream_t s, const SmallMoe& p) {
  p.tokens <= 8 ? launch_moe_rows<kFp8, true, 1>(s, p) : launch_moe_rows<kFp8, true, 2>(s, p);
}

template <bool kFp8>
void run_moe_down(cudaStream_t s, const SmallMoe& p) {
  if (p.rows != nullptr) {
    launch_moe_rows<kFp8, false, 2>(s, p);
    return;
  }
  const i64 tiles = (p.w2.out + 15) / 16;
  const int warps = tiles > 264 ? 8 : 16;
  launch_early(moe_down_kernel<kFp8>, "moe_down", static_cast<unsigned>(tiles), static_cast<unsigned>(warps * 32),
               Parts<1>::bytes(warps), s, p);
}

}  // namespace fathom::cuda
