// The tokens' rows made ready in shared memory: normalised, and quantised where products take codes.
#pragma once

#include "kernels/cuda/linear/gemv_mainloop.cuh"

namespace fathom::cuda {

// Where prepared rows lie: rows of bf16, 16 bytes apart so that 8 of them meet 8 bank groups, then scales [tokens,
// units].
struct InputPlace {
  char* rows;
  int in;

  static __host__ __device__ std::size_t row_bytes(i64 in) { return static_cast<std::size_t>(in * 2 + 16); }
  // A multiple of 16, so that another place can follow.
  static __host__ __device__ std::size_t bytes(i64 tokens, i64 in) {
    const std::size_t scales = static_cast<std::size_t>(tokens * ((in + kUnit - 1) / kUnit)) * sizeof(float);
    return static_cast<std::size_t>(tokens) * row_bytes(in) + (scales + 15) / 16 * 16 +
           kMostWarps * kMostPrepared * sizeof(float);
  }
  static constexpr int kMostWarps = 16, kMostPrepared = 8;

  __device__ char* row(int t) const { return rows + t * row_bytes(in); }
  __device__ float* scales(int tokens, int t) const {
    return reinterpret_cast<float*>(rows + tokens * row_bytes(in)) + t * ((in + kUnit - 1) / kUnit);
  }
  __device__ float* squares(int tokens) const { return scales(tokens, tokens); }  // [tokens][warps]
};

// What is prepared: float32 rows that are normalised with `gain`, or bf16 rows without it.
struct InputSource {
  const void* x;
  i64 stride;
  const float* gain;
  float eps;
  int tokens;
  bool quantise, power_of_two;
};

// Four entries of a unit, a warp's lane each, as bf16 pairs: normalised by `factor` and the gain.
__device__ inline uint2 normed_four(float4 x, float4 gain, float factor) {
  return {pack_bf16(x.x * factor * gain.x, x.y * factor * gain.y),
          pack_bf16(x.z * factor * gain.z, x.w * factor * gain.w)};
}

__device__ inline float sum_of_squares(float4 v) { return v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w; }

// Where else prepare_input() writes: codes and scales, or, without quantising, bf16 values; null: nowhere.
struct InputOutput {
  void* rows = nullptr;
  float* scales = nullptr;
};

// One unit of a row, quantised if that is asked for, into `place`.
__device__ inline void prepare_unit(const InputSource& s, const InputPlace& place, const InputOutput& out, int t, int u,
                                    uint2 packed) {
  const int lane = threadIdx.x % 32, units = (place.in + kUnit - 1) / kUnit, at = u * kUnit + lane * 4;
  std::uint32_t codes = 0;
  if (s.quantise) {
    const float values[4] = {__uint_as_float(packed.x << 16), __uint_as_float(packed.x & 0xffff0000u),
                             __uint_as_float(packed.y << 16), __uint_as_float(packed.y & 0xffff0000u)};
    const float scale = quantize_unit(values, s.power_of_two, codes);
    widen_e4m3(codes, packed.x, packed.y);
    if (lane == 0) place.scales(s.tokens, t)[u] = scale;
    if (lane == 0 && out.scales != nullptr) out.scales[t * units + u] = scale;
  }
  *reinterpret_cast<uint2*>(place.row(t) + at * 2) = packed;
  if (out.rows == nullptr) return;
  const i64 index = static_cast<i64>(t) * place.in + at;
  if (s.quantise)
    *reinterpret_cast<std::uint32_t*>(static_cast<std::uint8_t*>(out.rows) + index) = codes;
  else
    *reinterpret_cast<uint2*>(static_cast<__nv_bfloat16*>(out.rows) + index) = packed;
}

// A single float32 row: the block's warps share the units, the first of which a thread keeps in registers.
__device__ inline void prepare_row(const InputSource& s, const InputPlace& place, const InputOutput& out) {
  constexpr int kKept = 4;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, step = blockDim.x * 4,
            first = threadIdx.x * 4;
  const auto* x = static_cast<const float*>(s.x);
  float4 kept[kKept], gain[kKept];
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kKept; ++j) {
    const int at = first + j * step;
    kept[j] = at < place.in ? *reinterpret_cast<const float4*>(x + at) : float4{};
    gain[j] = at < place.in ? *reinterpret_cast<const float4*>(s.gain + at) : float4{};
  }
#pragma unroll
  for (int j = 0; j < kKept; ++j) sum += sum_of_squares(kept[j]);
  for (int at = first + kKept * step; at < place.in; at += step)
    sum += sum_of_squares(*reinterpret_cast<const float4*>(x + at));
  sum = warp_sum(sum);
  float* squares = place.squares(s.tokens);
  if (lane == 0) squares[warp] = sum;
  __syncthreads();
  sum = warp_sum(lane < warps ? squares[lane] : 0);
  const float factor = 1.0f / sqrtf(sum / static_cast<float>(place.in) + s.eps);
#pragma unroll
  for (int j = 0; j < kKept; ++j)
    if (first + j * step < place.in)
      prepare_unit(s, place, out, 0, warp + j * warps, normed_four(kept[j], gain[j], factor));
  for (int at = first + kKept * step; at < place.in; at += step)
    prepare_unit(
        s, place, out, 0, at / kUnit,
        normed_four(*reinterpret_cast<const float4*>(x + at), *reinterpret_cast<const float4*>(s.gain + at), factor));
}

// Several float32 rows: a warp finds the factors of whole rows, then all share all units.
__device__ inline void prepare_rows(const InputSource& s, const InputPlace& place, const InputOutput& out) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const int units = (place.in + kUnit - 1) / kUnit;
  float* factors = place.squares(s.tokens);
  for (int t = warp; t < s.tokens; t += warps) {
    const auto* x = static_cast<const float*>(s.x) + t * s.stride;
    float sum = 0;
#pragma unroll 8
    for (int i = lane * 4; i < place.in; i += kUnit) sum += sum_of_squares(*reinterpret_cast<const float4*>(x + i));
    sum = warp_sum(sum);
    if (lane == 0) factors[t] = 1.0f / sqrtf(sum / static_cast<float>(place.in) + s.eps);
  }
  __syncthreads();
#pragma unroll 4
  for (int item = warp; item < s.tokens * units; item += warps) {
    const int t = item / units, u = item % units, at = u * kUnit + lane * 4;
    if (at >= place.in) continue;  // of no whole unit: not quantised
    const auto* x = static_cast<const float*>(s.x) + t * s.stride;
    prepare_unit(s, place, out, t, u,
                 normed_four(*reinterpret_cast<const float4*>(x + at), *reinterpret_cast<const float4*>(s.gain + at),
                             factors[t]));
  }
}

// Fills `place`; all threads of the block take part, and a barrier follows.
__device__ inline void prepare_input(const InputSource& s, const InputPlace& place, const InputOutput& out = {}) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const int units = (place.in + kUnit - 1) / kUnit;
  if (s.gain != nullptr) {
    s.tokens == 1 ? prepare_row(s, place, out) : prepare_rows(s, place, out);
  } else {
#pragma unroll 4
    for (int item = warp; item < s.tokens * units; item += warps) {
      const int t = item / units, u = item % units;
      const auto* x = static_cast<const __nv_bfloat16*>(s.x) + t * s.stride + u * kUnit + lane * 4;
      prepare_unit(s, place, out, t, u, *reinterpret_cast<const uint2*>(x));
    }
  }
  __syncthreads();
}

// The prepared rows as a warp's tokens, with the scales of its columns if activations are quantised.
template <int kTiles>
__device__ void use_prepared(const InputPlace& place, int count, bool quantised, Tokens<Rows::shared, kTiles>& tokens,
                             const float* (&scales)[kTiles][2]) {
  const int g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    tokens.row[n] = place.row(min(n * 8 + g, count - 1));
    for (int i = 0; i < 2; ++i)
      scales[n][i] = quantised ? place.scales(count, min(n * 8 + 2 * c + i, count - 1)) : nullptr;
  }
}

}  // namespace fathom::cuda
