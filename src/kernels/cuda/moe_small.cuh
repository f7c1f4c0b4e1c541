// Routed experts for up to 64 tokens. Columns of the products are the tokens; those that did not choose a block's
// expert stay empty. Blocks read the chosen indices themselves, so that nothing is sorted and the host knows nothing.
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/small.cuh"

namespace fathom::cuda {

constexpr int kMostExperts = 1024;
constexpr std::uint8_t kNone = 255;

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

template <bool kFp8>
__device__ Rows16 expert_rows(const Matrix& w, int e) {
  return {static_cast<const char*>(w.data) + static_cast<i64>(e) * w.out * w.in * Unit<kFp8>::kBytes,
          kFp8 ? w.scale + static_cast<i64>(e) * ((w.out + kUnit - 1) / kUnit) * ((w.in + kUnit - 1) / kUnit) : nullptr,
          static_cast<int>(w.out), static_cast<int>(w.in)};
}

// Block (tile of 16 inner outputs, n-th chosen expert): hidden = silu(x w1^T) * x w3^T.
template <bool kFp8, Rows kRows, int kTiles>
__global__ void __launch_bounds__(256) moe_up_kernel(const SmallMoe p) {
  extern __shared__ float memory[];
  __shared__ Chosen chosen;
  __shared__ std::uint8_t choice[8 * kTiles];
  let_next_start();
  wait_for_previous();
  int e = -1;
  if (p.tokens == 1) {
    const i64 index = p.route.indices[blockIdx.y] - p.first;
    e = index >= 0 && index < p.w1.count ? static_cast<int>(index) : -1;
  } else {
    chosen.collect(p);
    e = chosen.nth(static_cast<int>(blockIdx.y), static_cast<int>(p.w1.count));
  }
  if (e < 0) return;
  for (int i = threadIdx.x; i < 8 * kTiles; i += blockDim.x) choice[i] = kNone;
  __syncthreads();
  for (int i = threadIdx.x; i < p.tokens * p.route.top_k; i += blockDim.x)
    if (p.route.indices[i] - p.first == e) choice[i / p.route.top_k] = static_cast<std::uint8_t>(i % p.route.top_k);
  __syncthreads();
  const int first = static_cast<int>(blockIdx.x) * 16, g = threadIdx.x % 32 / 4;
  const Rows16 w[2] = {expert_rows<kFp8>(p.w1, e), expert_rows<kFp8>(p.w3, e)};
  Tokens<kRows, kTiles> tokens{};
  const float* scales[kTiles][2] = {};
  float sums[2][kTiles][4] = {};
  stream<kFp8, kRows, kTiles, 2>(sums, w, first, tokens, scales, [&] {
    tokens.gain = p.gain;
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
      tokens.row[n] = choice[n * 8 + g] != kNone
                          ? static_cast<const char*>(p.x) + (n * 8 + g) * p.x_stride * (kRows == Rows::normed ? 4 : 2)
                          : nullptr;
  });
  const Parts<kTiles, 2> parts{memory};
  parts.put(sums);
  if constexpr (kRows == Rows::normed) parts.put_squares(tokens.squares);
  __syncthreads();
  auto* hidden = static_cast<__nv_bfloat16*>(p.hidden);
  for (int i = threadIdx.x; i < 16 * p.tokens; i += blockDim.x) {
    const int row = i % 16, token = i / 16;
    if (choice[token] == kNone || first + row >= p.w1.out) continue;
    const float factor = kRows == Rows::normed ? parts.factor(token, static_cast<int>(p.w1.in), p.eps) : 1.0f;
    hidden[(static_cast<i64>(token) * p.route.top_k + choice[token]) * p.w1.out + first + row] =
        __float2bfloat16_rn(silu(parts.get(0, row, token) * factor) * (parts.get(1, row, token) * factor));
  }
}

// Block (tile of 16 outputs): y += shared experts and all chosen experts, each token's by its weights. The units of all
// of them are one list, the shared experts' first: those do not depend on the routing.
template <bool kFp8, int kTiles>
class Down {
 public:
  __device__ Down(const SmallMoe& p, Chosen& chosen, std::uint8_t* slots, int* experts)
      : p_(p), chosen_(chosen), slots_(slots), experts_(experts), first_(static_cast<int>(blockIdx.x) * 16) {
    shared_units_ = p.shared_w2.out > 0 ? static_cast<int>((p.shared_w2.in + kUnit - 1) / kUnit) : 0;
    expert_units_ = static_cast<int>((p.w2.in + kUnit - 1) / kUnit);
  }

  __device__ void run(float (&sums)[1][kTiles][4]) {
    const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
    if (warp < shared_units_) fetch(warp);
    wait_for_previous();
    list_experts();
    const int units = shared_units_ + active_ * expert_units_;
    if (warp >= shared_units_ && warp < units) fetch(warp);
    for (int u = warp; u < units; u += warps) {
      const Unit<kFp8> now[1] = {next_};
      const float scale = next_scale_;
      if (u + warps < units) fetch(u + warps);
      add(sums, now, scale, u);
    }
  }

 private:
  // Which unit of which matrix: expert rank -1 for the shared ones.
  struct Place {
    int rank, unit;
  };
  __device__ Place place(int u) const {
    if (u < shared_units_) return {-1, u};
    return {(u - shared_units_) / expert_units_, (u - shared_units_) % expert_units_};
  }

  __device__ void fetch(int u) {
    const Place at = place(u);
    const Rows16 w = at.rank < 0 ? expert_rows<kFp8>(p_.shared_w2, 0) : expert_rows<kFp8>(p_.w2, experts_[at.rank]);
    const int g = threadIdx.x % 32 / 4;
    next_.load(w.row(first_ + g, Unit<kFp8>::kBytes), w.row(first_ + g + 8, Unit<kFp8>::kBytes), at.unit * kUnit, w.in);
    if constexpr (kFp8) next_scale_ = w.scales(first_)[at.unit];
  }

  // experts_[rank], and slots_[rank][token]: the token's choice that it is.
  __device__ void list_experts() {
    const int tokens = p_.tokens, top_k = p_.route.top_k;
    if (tokens == 1) {
      active_ = 0;
      for (int k = 0; k < top_k; ++k) {
        const i64 e = p_.route.indices[k] - p_.first;
        if (e < 0 || e >= p_.w2.count) continue;
        if (threadIdx.x == 0) {
          experts_[active_] = static_cast<int>(e);
          slots_[active_] = static_cast<std::uint8_t>(k);
        }
        ++active_;
      }
      __syncthreads();
      return;
    }
    chosen_.collect(p_);
    active_ = chosen_.count(static_cast<int>(p_.w2.count));
    for (int i = threadIdx.x; i < active_ * tokens; i += blockDim.x) slots_[i] = kNone;
    __syncthreads();
    for (int i = threadIdx.x; i < tokens * top_k; i += blockDim.x) {
      const i64 e = p_.route.indices[i] - p_.first;
      if (e < 0 || e >= p_.w2.count) continue;
      const int rank = chosen_.rank(static_cast<int>(e));
      experts_[rank] = static_cast<int>(e);
      slots_[rank * tokens + i / top_k] = static_cast<std::uint8_t>(i % top_k);
    }
    __syncthreads();
  }

  __device__ void add(float (&sums)[1][kTiles][4], const Unit<kFp8> (&now)[1], float scale, int u) {
    const Place at = place(u);
    const int g = threadIdx.x % 32 / 4, c = threadIdx.x % 4, tokens = p_.tokens, top_k = p_.route.top_k;
    const bool shared = at.rank < 0;
    const i64 width = shared ? p_.shared_w2.in : p_.w2.in;
    const auto slot = [&](int token) {
      return token < tokens ? (shared ? 0 : slots_[at.rank * tokens + token]) : kNone;
    };
    Tokens<Rows::bf16, kTiles> x{};
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const int token = n * 8 + g, k = slot(token);
      const i64 row = shared ? token : static_cast<i64>(token) * top_k + k;
      x.row[n] =
          k == kNone ? nullptr : static_cast<const char*>(shared ? p_.shared_hidden : p_.hidden) + row * width * 2;
    }
    float part[1][kTiles][4] = {};
    multiply<kFp8>(part, now, x, at.unit * kUnit, static_cast<int>(width));
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
      for (int i = 0; i < 2; ++i) {
        const int token = n * 8 + 2 * c + i, k = slot(token);
        const float weight = k == kNone ? 0.0f : shared ? 1.0f : p_.route.weights[token * top_k + k];
        const float factor = kFp8 ? weight * scale : weight;
        sums[0][n][i] += part[0][n][i] * factor;
        sums[0][n][2 + i] += part[0][n][2 + i] * factor;
      }
  }

  const SmallMoe& p_;
  Chosen& chosen_;
  std::uint8_t* slots_;
  int* experts_;
  int first_, shared_units_, expert_units_, active_ = 0;
  Unit<kFp8> next_;
  float next_scale_ = 1;
};

// Experts that so many tokens can have chosen.
inline int most_chosen(const SmallMoe& p) {
  const i64 choices = static_cast<i64>(p.tokens) * p.route.top_k;
  return static_cast<int>(choices < p.w1.count ? choices : p.w1.count);
}

template <bool kFp8, int kTiles>
__global__ void __launch_bounds__(kTiles >= 4 ? 256 : 512) moe_down_kernel(const SmallMoe p, int most) {
  extern __shared__ float memory[];
  __shared__ Chosen chosen;
  let_next_start();
  const Parts<kTiles, 1> parts{memory};
  int* experts = reinterpret_cast<int*>(memory + blockDim.x / 32 * (Parts<kTiles, 1>::kSize + 8 * kTiles));
  float sums[1][kTiles][4] = {};
  Down<kFp8, kTiles>(p, chosen, reinterpret_cast<std::uint8_t*>(experts + most), experts).run(sums);
  parts.put(sums);
  __syncthreads();
  const int first = static_cast<int>(blockIdx.x) * 16;
  for (int i = threadIdx.x; i < 16 * p.tokens; i += blockDim.x)
    if (first + i % 16 < p.w2.out) p.y[i / 16 * p.y_stride + first + i % 16] += parts.get(0, i % 16, i / 16);
}

template <bool kFp8, Rows kRows, int kTiles>
void launch_moe_up(cudaStream_t s, const SmallMoe& p) {
  const i64 tiles = (p.w1.out + 15) / 16;
  const int most = most_chosen(p), warps = warps_for(tiles * (most < 16 ? most : 16) * 2, p.w1.in, kTiles >= 4 ? 4 : 8);
  launch_early(moe_up_kernel<kFp8, kRows, kTiles>, "moe_up",
               dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(most)), static_cast<unsigned>(warps * 32),
               Parts<kTiles, 2>::bytes(warps), s, p);
}

template <bool kFp8, int kTiles>
void launch_moe_down(cudaStream_t s, const SmallMoe& p) {
  const i64 tiles = (p.w2.out + 15) / 16;
  const int most = most_chosen(p), warps = kTiles >= 4 ? 8 : tiles > 264 ? 8 : 16;
  const std::size_t lists = static_cast<std::size_t>(most) * (4 + static_cast<std::size_t>(p.tokens)) + 16;
  launch_early(moe_down_kernel<kFp8, kTiles>, "moe_down", static_cast<unsigned>(tiles),
               static_cast<unsigned>(warps * 32), Parts<kTiles, 1>::bytes(warps) + lists, s, p, most);
}

template <bool kFp8>
void dispatch_moe_up(cudaStream_t s, const SmallMoe& p) {
  if (p.gain != nullptr) return launch_moe_up<kFp8, Rows::normed, 1>(s, p);
  if (p.tokens <= 8) return launch_moe_up<kFp8, Rows::bf16, 1>(s, p);
  if (p.tokens <= 16) return launch_moe_up<kFp8, Rows::bf16, 2>(s, p);
  if (p.tokens <= 32) return launch_moe_up<kFp8, Rows::bf16, 4>(s, p);
  launch_moe_up<kFp8, Rows::bf16, 8>(s, p);
}

template <bool kFp8>
void dispatch_moe_down(cudaStream_t s, const SmallMoe& p) {
  if (p.tokens <= 8) return launch_moe_down<kFp8, 1>(s, p);
  if (p.tokens <= 16) return launch_moe_down<kFp8, 2>(s, p);
  if (p.tokens <= 32) return launch_moe_down<kFp8, 4>(s, p);
  launch_moe_down<kFp8, 8>(s, p);
}

}  // namespace fathom::cuda
