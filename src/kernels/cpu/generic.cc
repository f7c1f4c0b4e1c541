// The kernels for any processor, in vectors of the compiler (SSE2 on x86-64).
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/cpu/kernels.h"

namespace fathom {
namespace {
namespace generic {

constexpr int kLanes = 4;
constexpr int kTileColumns = 3;    // weight rows of a tile: accumulators must fit the registers
constexpr int kDirectColumns = 2;  // weight rows used together straight from memory, for 3 or 4 rows of x
constexpr int kTileVectors = 2;    // vectors of a value row worked on together

#include "kernels/cpu/simd.inc"

// Codes times 1 / kCodeFactor.
constexpr float kCodeFactor = 1;
inline Vec load_e4m3(const std::uint8_t* p) {
  std::uint32_t word;
  __builtin_memcpy(&word, p, 4);
  const UVec code = UVec{word, word >> 8, word >> 16, word >> 24} & 0xffu;
  const UVec magnitude = code & 0x7fu, sign = (code & 0x80u) << 24;
  const IVec subnormal = magnitude < 8u;  // 2^-6 * (1 + m / 8) - 2^-6 = m * 2^-9
  const Vec normal = reinterpret_cast<Vec>((magnitude << 20) + (120u << 23));
  const Vec small = reinterpret_cast<Vec>((magnitude << 20) + (121u << 23)) - 0x1p-6f;
  UVec bits = reinterpret_cast<UVec>(subnormal ? small : normal);
  bits = magnitude == 0x7fu ? bits - bits + 0x7fc00000u : bits;
  return reinterpret_cast<Vec>(bits | sign);
}

inline void load_e4m3_pair(const std::uint8_t* p, Vec& a, Vec& b) {
  a = load_e4m3(p);
  b = load_e4m3(p + kLanes);
}

#include "kernels/cpu/rows.inc"

#include "kernels/cpu/gemm.inc"

#include "kernels/cpu/attention.inc"

}  // namespace generic
}  // namespace

const CpuKernels& generic_kernels() {
  static constexpr CpuKernels kTable = {generic::widen,       generic::narrow,     generic::decode_row,
                                        generic::add,         generic::add_scaled, generic::rms_norm,
                                        generic::silu_mul,    generic::quantize,   generic::gemm,
                                        generic::attend_span, generic::merge_sums, generic::finish_sums};
  return kTable;
}

}  // namespace fathom
