// Routed experts for few tokens. Blocks find the chosen experts on the device: the host knows nothing of them.
#pragma once

#include <cmath>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear/gemv_input.cuh"
#include "kernels/cuda/moe/lists.cuh"

namespace fathom::cuda {

// The n-th chosen expert of this rank and its choices (token * top_k + k).
struct ExpertRows {
  int expert, count;  // expert -1: there is none
  const std::int32_t* choices;

  __device__ static ExpertRows listed(const MoeArgs& p, int n) {
    const int4 entry = __ldcg(reinterpret_cast<const int4*>(p.experts) + n);
    return {entry.x, entry.z, p.choices + entry.y};
  }
  // A single token is routed here, by each warp of each block: that is quicker than to wait for one that does.
  __device__ static int routed(const MoeArgs& p, int n, float* memory) {
    const Choice choice =
        route_in_registers(p.route, 0, memory + route_bytes(p.route) / sizeof(float) * (threadIdx.x / 32));
    const int e = __shfl_sync(0xffffffffu, choice.index, n) - static_cast<int>(p.first);
    return e >= 0 && e < p.w1.count ? e : -1;
  }
};

// Consecutive tiles of a matrix, and of the other one with kUp, unit by unit.
template <bool kFp8, bool kUp>
class TileReader {
 public:
  static constexpr int kOutputs = kUp ? 8 : 16;

  __device__ __forceinline__ TileReader(const OneMatrix<kFp8>& a, const OneMatrix<kFp8>& b, int tile, int end,
                                        int units)
      : a_(a), b_(b), rows_{}, tile_(tile), end_(end), units_(units), unit_(static_cast<int>(threadIdx.x / 32)) {
    if (tile_ < end_) open();
  }
  // This warp's next unit, if there is one; after its units of a tile come those of the next.
  __device__ __forceinline__ void next(Fetched<kFp8>& to) {
    if (tile_ >= end_) return;
    to.fetch(rows_, unit_, units_);
    unit_ += static_cast<int>(blockDim.x / 32);
    if (unit_ < units_) return;
    unit_ = static_cast<int>(threadIdx.x / 32);
    if (++tile_ < end_) open();
  }

 private:
  __device__ __forceinline__ void open() {
    const int first = tile_ * kOutputs;
    rows_ = kUp ? eight_rows(a_, b_, first) : sixteen_rows(a_, first);
  }
  OneMatrix<kFp8> a_, b_;
  TileRows16 rows_;
  int tile_, end_, units_, unit_;
};

// Tiles `tile` to `end` of 8 outputs of hidden = silu(x w1^T) * x w3^T (kUp), or of 16 outputs of rows = hidden w2^T,
// for up to 8 kTiles of the expert's choices, from `base` on. Weights of the next tile are on their way while one ends.
template <bool kFp8, bool kUp, Rows kRows, int kTiles>
__device__ __forceinline__ void expert_tiles(const MoeArgs& p, const ExpertRows& rows, int tile, int end, int base,
                                             float* memory) {
  constexpr int kOutputs = kUp ? 8 : 16, kAhead = 2;
  const int g = threadIdx.x % 32 / 4, c = threadIdx.x % 4, warp = threadIdx.x / 32, warps = blockDim.x / 32,
            top_k = p.route.top_k, count = min(rows.count - base, 8 * kTiles);
  const OneMatrix<kFp8> a(kUp ? p.w1 : p.w2, rows.expert), b(p.w3, rows.expert);
  const int units = (a.in + kUnit - 1) / kUnit;
  TileReader<kFp8, kUp> reader(a, b, tile, end, units);
  Fetched<kFp8> ahead[kAhead];
#pragma unroll
  for (int d = 0; d < kAhead; ++d) reader.next(ahead[d]);
  Tokens<kRows, kTiles> tokens{};
  const float* scales[kTiles][2] = {};
  const auto row = [&](int slot) -> i64 {
    const int choice = rows.choices[base + min(slot, count - 1)];
    return kUp ? choice / top_k : choice;
  };
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const i64 mine = row(n * 8 + g);
    if constexpr (kRows == Rows::codes) {
      tokens.row[n] = reinterpret_cast<const char*>(kUp ? p.x_codes.data : p.hidden_codes.data) + mine * a.in;
      for (int i = 0; i < 2; ++i)
        scales[n][i] = (kUp ? p.x_codes.scale : p.hidden_codes.scale) + row(n * 8 + 2 * c + i) * (a.in / kUnit);
    } else {
      tokens.row[n] = static_cast<const char*>(kUp ? p.x : p.hidden) + mine * (kUp ? p.x_stride : a.in) * 2;
    }
  }
  const Parts<kTiles> parts{memory};
  const auto finish = [&](float(&sums)[kTiles][4]) {
    parts.put(sums);
    __syncthreads();
    for (int i = threadIdx.x; i < kOutputs * count; i += blockDim.x) {
      const int out_row = i % kOutputs, slot = i / kOutputs, out = tile * kOutputs + out_row;
      if (out >= a.out) continue;
      const i64 at = static_cast<i64>(rows.choices[base + slot]) * a.out + out;
      if constexpr (kUp)
        static_cast<__nv_bfloat16*>(p.hidden)[at] =
            __float2bfloat16_rn(silu(parts.get(out_row, slot)) * parts.get(out_row + 8, slot));
      else
        p.rows[at] = parts.get(out_row, slot);
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[n][i] = 0;
  };
  float sums[kTiles][4] = {};
  int next = warp;  // every warp has a unit in each tile at least
  while (tile < end) {
#pragma unroll
    for (int d = 0; d < kAhead; ++d) {
      if (tile >= end) break;
      add_unit(sums, ahead[d], tokens, scales, next, a.in);
      reader.next(ahead[d]);
      next += warps;
      if (next < units) continue;
      finish(sums);
      next = warp;
      ++tile;
    }
  }
}

// Block (tile of 8 outputs, n-th chosen expert) for a single token: hidden = silu(x w1^T) * x w3^T.
template <bool kFp8, Rows kRows>
__global__ void __launch_bounds__(256) moe_one_up_kernel(const __grid_constant__ MoeArgs p) {
  extern __shared__ __align__(16) float memory[];
  let_next_start();
  wait_for_previous();
  const Parts<1> parts{memory};
  const int e = ExpertRows::routed(p, static_cast<int>(blockIdx.y), memory + blockDim.x / 32 * Parts<1>::kSize);
  if (e < 0) return;
  const int first = static_cast<int>(blockIdx.x) * 8;
  const OneMatrix<kFp8> a(p.w1, e), b(p.w3, e);
  Tokens<kRows, 1> tokens{};
  const float* scales[1][2] = {};
  float sums[1][4] = {};
  stream<kFp8>(sums, eight_rows(a, b, first), tokens, scales, [&] {
    tokens.row[0] =
        kRows == Rows::codes ? reinterpret_cast<const char*>(p.x_codes.data) : static_cast<const char*>(p.x);
    if (kRows == Rows::codes) scales[0][0] = scales[0][1] = p.x_codes.scale;
  });
  parts.put(sums);
  __syncthreads();
  if (const int row = static_cast<int>(threadIdx.x); row < 8 && first + row < a.out)
    static_cast<__nv_bfloat16*>(p.hidden)[static_cast<i64>(blockIdx.y) * a.out + first + row] =
        __float2bfloat16_rn(silu(parts.get(row, 0)) * parts.get(row + 8, 0));
}

// Block (run of `run` tiles, n-th chosen expert). Tokens are taken 8 kTiles at a time, fewer where there are fewer.
template <bool kFp8, bool kUp, Rows kRows, int kTiles>
__global__ void __launch_bounds__(256, kTiles > 2 || kRows == Rows::codes ? 1 : 2)
    moe_rows_kernel(const __grid_constant__ MoeArgs p, int run) {
  extern __shared__ __align__(16) float memory[];
  let_next_start();
  wait_for_previous();
  const ExpertRows rows = ExpertRows::listed(p, static_cast<int>(blockIdx.y));
  if (rows.expert < 0) return;
  constexpr int kOutputs = kUp ? 8 : 16;
  const int tiles = (static_cast<int>(kUp ? p.w1.out : p.w2.out) + kOutputs - 1) / kOutputs,
            tile = static_cast<int>(blockIdx.x) * run, end = min(tile + run, tiles);
  for (int base = 0; base < rows.count;) {
    const int left = rows.count - base;
    if (kTiles == 1 || left <= 8) {
      expert_tiles<kFp8, kUp, kRows, 1>(p, rows, tile, end, base, memory);
      base += 8;
    } else if (kTiles == 2 || left <= 16) {
      expert_tiles<kFp8, kUp, kRows, 2>(p, rows, tile, end, base, memory);
      base += 16;
    } else {
      expert_tiles<kFp8, kUp, kRows, 4>(p, rows, tile, end, base, memory);
      base += 32;
    }
  }
}

// Block (tile of 16 outputs), up to 8 tokens: y += shared experts and all chosen experts, each token's by its weights.
// Columns are the tokens. The units of all matrices are one list, the shared experts' first: those do not depend on the
// routing.
template <bool kFp8, Rows kRows>
class Down {
 public:
  // Each chosen expert, each token's choice of it (kNone: not chosen), and the weights of choices.
  struct Lists {
    static constexpr int kMost = 64;
    int experts[kMost];
    std::int8_t slots[kMost][8];
    float weights[kMost];
  };
  static constexpr std::int8_t kNone = -1;

  // memory: for routing of each warp; staged: for rows.
  __device__ Down(const MoeArgs& p, Lists& lists, float* memory, char* staged)
      : p_(p), lists_(lists), memory_(memory), first_(static_cast<int>(blockIdx.x) * 16) {
    shared_units_ = p.shared_w2.out > 0 ? static_cast<int>((p.shared_w2.in + kUnit - 1) / kUnit) : 0;
    expert_units_ = static_cast<int>((p.w2.in + kUnit - 1) / kUnit);
    if constexpr (kRows == Rows::shared) {
      hidden_ = {staged, static_cast<int>(p.w2.in) * p.route.top_k};
      shared_ = {staged + InputPlace::bytes(1, hidden_.in), static_cast<int>(p.shared_w2.in)};
    }
  }
  static std::size_t prepared_bytes(const MoeArgs& p) {
    return kRows == Rows::shared ? InputPlace::bytes(1, p.w2.in * p.route.top_k) + InputPlace::bytes(1, p.shared_w2.in)
                                 : 0;
  }

  __device__ void run(float (&sums)[1][4]) {
    const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
    Fetched<kFp8> a, b;
    if (warp < shared_units_) fetch(a, warp);
    if (warp + warps < shared_units_) fetch(b, warp + warps);
    if (p_.experts != nullptr) clear_slots();
    wait_for_previous();
    p_.experts == nullptr ? route_here() : read_lists();
    if constexpr (kRows == Rows::shared) {  // a single token
      prepare_input({p_.hidden, 0, nullptr, 0, 1, true, p_.w2.power_of_two}, hidden_);
      if (shared_units_ > 0) prepare_input({p_.shared_hidden, 0, nullptr, 0, 1, true, p_.w2.power_of_two}, shared_);
    }
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

  __device__ void route_here() {
    bool here = false;
    if (threadIdx.x < 32) {
      const Choice choice = route_in_registers(p_.route, 0, memory_);
      const int e = choice.index - static_cast<int>(p_.first), k = static_cast<int>(threadIdx.x);
      here = k < p_.route.top_k && e >= 0 && e < p_.w2.count;
      const unsigned all = __ballot_sync(0xffffffffu, here);
      if (here) {
        const int rank = __popc(all & ((1u << k) - 1));
        lists_.experts[rank] = e;
        lists_.slots[rank][0] = static_cast<std::int8_t>(k);
        lists_.weights[k] = choice.weight;
      }
    }
    active_ = __syncthreads_count(here ? 1 : 0);
  }

  __device__ void clear_slots() {
    for (int i = threadIdx.x; i < chosen_at_most(p_) * 8; i += blockDim.x) lists_.slots[i / 8][i % 8] = kNone;
    __syncthreads();
  }

  __device__ void read_lists() {
    const int top_k = p_.route.top_k, most = chosen_at_most(p_);
    for (int i = threadIdx.x; i < p_.tokens * top_k; i += blockDim.x) lists_.weights[i] = __ldcg(p_.route.weights + i);
    for (int i = threadIdx.x; i < most * 8; i += blockDim.x) {
      const int4 entry = __ldcg(reinterpret_cast<const int4*>(p_.experts) + i / 8);
      if (i % 8 == 0) lists_.experts[i / 8] = entry.x;
      if (i % 8 >= entry.z) continue;  // at most one choice a token
      const int choice = __ldcg(p_.choices + entry.y + i % 8);
      lists_.slots[i / 8][choice / top_k] = static_cast<std::int8_t>(choice % top_k);
    }
    __syncthreads();
    const int mine = static_cast<int>(threadIdx.x);
    active_ = __syncthreads_count(mine < most && lists_.experts[mine] >= 0 ? 1 : 0);
  }

  // The tokens' rows of a matrix: token's row is row number `row`.
  __device__ void rows_of(bool shared, i64 row, Tokens<kRows, 1>& x) const {
    const i64 width = shared ? p_.shared_w2.in : p_.w2.in;
    if constexpr (kRows == Rows::bf16)
      x.row[0] = static_cast<const char*>(shared ? p_.shared_hidden : p_.hidden) + row * width * 2;
    else if constexpr (kRows == Rows::codes)
      x.row[0] = reinterpret_cast<const char*>((shared ? p_.shared_codes : p_.hidden_codes).data) + row * width;
    else
      x.row[0] = (shared ? shared_.rows : hidden_.rows) + row * width * 2;
  }
  __device__ float scale_of(bool shared, i64 row, int unit) const {
    const int units = shared ? shared_units_ : expert_units_;
    if constexpr (kRows == Rows::bf16) return 1;
    if constexpr (kRows == Rows::codes) return (shared ? p_.shared_codes : p_.hidden_codes).scale[row * units + unit];
    return (shared ? shared_ : hidden_).scales(1, 0)[row * units + unit];
  }

  __device__ void add(float (&sums)[1][4], const Fetched<kFp8>& now, int u) const {
    const Place at = place(u);
    const int g = threadIdx.x % 32 / 4, c = threadIdx.x % 4, tokens = p_.tokens, top_k = p_.route.top_k;
    const bool shared = at.rank < 0;
    const i64 width = shared ? p_.shared_w2.in : p_.w2.in;
    const auto slot = [&](int token) { return token < tokens ? (shared ? 0 : lists_.slots[at.rank][token]) : kNone; };
    const auto row = [&](int token, int k) -> i64 { return shared ? token : token * top_k + k; };
    Tokens<kRows, 1> x{};
    const int token = min(g, tokens - 1);
    rows_of(shared, row(token, max(slot(token), 0)), x);
    float part[1][4] = {};
    multiply<kFp8>(part, now.unit, x, at.unit * kUnit, static_cast<int>(width));
    for (int i = 0; i < 2; ++i) {
      const int k = slot(2 * c + i);
      if (k == kNone) continue;  // whatever stands in this column does not count
      const float weight =
          (shared ? 1.0f : lists_.weights[(2 * c + i) * top_k + k]) * scale_of(shared, row(2 * c + i, k), at.unit);
      sums[0][i] += part[0][i] * (weight * now.low_scale);
      sums[0][2 + i] += part[0][2 + i] * (weight * now.high_scale);
    }
  }

  const MoeArgs& p_;
  Lists& lists_;
  float* memory_;
  int first_, shared_units_, expert_units_, active_ = 0;
  InputPlace hidden_{}, shared_{};
};

// Bytes of shared memory that serve the routing first and the sums of all warps later.
__host__ __device__ inline std::size_t sums_or_routing(const MoeArgs& p, int warps) {
  const std::size_t sums = Parts<1>::bytes(warps), routing = route_bytes(p.route);
  return sums > routing ? sums : routing;
}

template <bool kFp8, Rows kRows>
__global__ void __launch_bounds__(512) moe_down_kernel(const __grid_constant__ MoeArgs p) {
  extern __shared__ __align__(16) float memory[];
  __shared__ typename Down<kFp8, kRows>::Lists lists;
  let_next_start();
  float sums[1][4] = {};
  const Parts<1> parts{memory};
  // Only the first warp routes; the sums are put there when all have their lists.
  Down<kFp8, kRows>(p, lists, memory, reinterpret_cast<char*>(memory) + sums_or_routing(p, blockDim.x / 32)).run(sums);
  parts.put(sums);
  __syncthreads();
  const int first = static_cast<int>(blockIdx.x) * 16;
  for (int i = threadIdx.x; i < 16 * p.tokens; i += blockDim.x)
    if (first + i % 16 < p.w2.out) p.y[i / 16 * p.y_stride + first + i % 16] += parts.get(i % 16, i / 16);
}

// Tiles of a block. With many tokens all blocks run at once: 16 warps a multiprocessor are shared by the experts that
// are to be expected, and some more. How many a few tokens choose is too uncertain for that.
inline i64 run_of(const MoeArgs& p, i64 tiles, int warps, int multiprocessors) {
  if (p.tokens <= 8) return 2;
  const double all = static_cast<double>(p.route.experts), missed = std::pow(1 - p.route.top_k / all, p.tokens),
               chosen = std::ceil(all * (1 - missed) + 1.5 * std::sqrt(all * missed * (1 - missed))),
               here = std::fmax(1.0, std::fmin(chosen, all) * static_cast<double>(p.w1.count) / all),
               runs = std::floor(multiprocessors * 16.0 / warps / here);  // of one expert
  return runs < 1 ? tiles : static_cast<i64>(std::ceil(static_cast<double>(tiles) / runs));
}

template <bool kFp8, bool kUp, Rows kRows, int kTiles>
void launch_moe_rows(Stream& s, const MoeArgs& p) {
  const Matrix& w = kUp ? p.w1 : p.w2;
  const i64 tiles = kUp ? (w.out + 7) / 8 : (w.out + 15) / 16;
  const int most = chosen_at_most(p), warps = warps_for(tiles * most, w.in, 2, 8, s.device.multiprocessors);
  const i64 run = run_of(p, tiles, warps, s.device.multiprocessors);
  launch(moe_rows_kernel<kFp8, kUp, kRows, kTiles>,
         {.name = "moe_rows",
          .grid = dim3(static_cast<unsigned>((tiles + run - 1) / run), static_cast<unsigned>(most)),
          .block = static_cast<unsigned>(warps * 32),
          .shared = Parts<kTiles>::bytes(warps),
          .early = true,
          .at_once = p.tokens > 8 ? 16 / warps + 1 : 0},
         s, p, static_cast<int>(run));
}

template <bool kFp8, Rows kRows>
void run_moe_up(Stream& s, const MoeArgs& p) {
  if (p.experts == nullptr) {
    const i64 tiles = (p.w1.out + 7) / 8;
    const int top_k = p.route.top_k;  // some of which may be another rank's
    const int warps = warps_for(tiles * top_k, p.w1.in, 2, 8, s.device.multiprocessors);
    const std::size_t shared = Parts<1>::bytes(warps) + route_bytes(p.route) * static_cast<std::size_t>(warps);
    return launch_early(moe_one_up_kernel<kFp8, kRows>, "moe_up",
                        dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(top_k)),
                        static_cast<unsigned>(warps * 32), shared, s, p);
  }
  if (p.tokens <= 8) return launch_moe_rows<kFp8, true, kRows, 1>(s, p);
  p.tokens <= 128 ? launch_moe_rows<kFp8, true, kRows, 2>(s, p) : launch_moe_rows<kFp8, true, kRows, 4>(s, p);
}

template <bool kFp8, Rows kRows>
void run_moe_down(Stream& s, const MoeArgs& p) {
  const i64 tiles = (p.w2.out + 15) / 16;
  const int warps = tiles > 2 * s.device.multiprocessors ? 8 : 16;
  launch_early(moe_down_kernel<kFp8, kRows>, "moe_down", static_cast<unsigned>(tiles),
               static_cast<unsigned>(warps * 32), sums_or_routing(p, warps) + Down<kFp8, kRows>::prepared_bytes(p), s,
               p);
}

template <bool kFp8, Rows kRows>
void run_moe_down_rows(Stream& s, const MoeArgs& p) {
  p.tokens <= 128 ? launch_moe_rows<kFp8, false, kRows, 2>(s, p) : launch_moe_rows<kFp8, false, kRows, 4>(s, p);
}

}  // namespace fathom::cuda
