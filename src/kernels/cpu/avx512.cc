// The kernels for AVX-512 (F, BW, DQ, VL).
#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/cpu/kernels.h"

namespace fathom {
namespace {
namespace avx512 {

constexpr int kLanes = 16;
constexpr int kTileColumns = 6;    // weight rows of a tile: accumulators must fit the registers
constexpr int kDirectColumns = 4;  // weight rows used together straight from memory, for 3 or 4 rows of x
constexpr int kTileVectors = 4;    // vectors of a value row worked on together

#include "kernels/cpu/simd.inc"

// Codes times 1 / kCodeFactor: an e4m3 code shifted into a half float is its value times 2^-8, subnormals included, and
// the conversion of half floats is exact.
constexpr float kCodeFactor = 256;
inline Vec load_e4m3(const std::uint8_t* p) {
  const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i_u*>(p)));
  __m256i half = _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(static_cast<short>(0xbf80)));
  const __m256i top = _mm256_set1_epi16(0x3f80);  // code 0x7f: NaN
  half = _mm256_or_si256(
      half, _mm256_and_si256(_mm256_cmpeq_epi16(_mm256_and_si256(half, top), top), _mm256_set1_epi16(0x7e00)));
  return _mm512_maskz_cvtph_ps(0xffff, half);  // the plain form warns in GCC 12
}

// Two vectors at once: most of the work is on half floats, which fit one register.
inline void load_e4m3_pair(const std::uint8_t* p, Vec& a, Vec& b) {
  const __m512i wide = _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(p)));
  __m512i half = _mm512_and_si512(_mm512_slli_epi16(wide, 7), _mm512_set1_epi16(static_cast<short>(0xbf80)));
  const __m512i top = _mm512_set1_epi16(0x3f80);
  const __mmask32 nan = _mm512_cmpeq_epi16_mask(_mm512_and_si512(half, top), top);
  half = _mm512_mask_blend_epi16(nan, half, _mm512_set1_epi16(0x7e00));
  a = _mm512_maskz_cvtph_ps(0xffff, __builtin_shufflevector(half, half, 0, 1, 2, 3));
  b = _mm512_maskz_cvtph_ps(0xffff, __builtin_shufflevector(half, half, 4, 5, 6, 7));
}

#include "kernels/cpu/rows.inc"

#include "kernels/cpu/gemm.inc"

#include "kernels/cpu/attention.inc"

}  // namespace avx512
}  // namespace

const CpuKernels& avx512_kernels() {
  static constexpr CpuKernels kTable = {avx512::widen,       avx512::narrow,     avx512::decode_row,
                                        avx512::add,         avx512::add_scaled, avx512::rms_norm,
                                        avx512::silu_mul,    avx512::quantize,   avx512::gemm,
                                        avx512::attend_span, avx512::merge_sums, avx512::finish_sums};
  return kTable;
}

}  // namespace fathom
