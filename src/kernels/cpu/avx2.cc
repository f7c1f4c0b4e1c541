// The kernels for AVX2 with FMA and F16C.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/cpu/kernels.h"

namespace fathom {
namespace {
namespace avx2 {

constexpr int kLanes = 8;
constexpr int kTileColumns = 3;    // weight rows of a tile: accumulators must fit the registers
constexpr int kDirectColumns = 2;  // weight rows used together straight from memory, for 3 or 4 rows of x
constexpr int kTileVectors = 2;    // vectors of a value row worked on together

#include "kernels/cpu/simd.inc"

// Codes times 1 / kCodeFactor: an e4m3 code shifted into a half float is its value times 2^-8, subnormals included, and
// the conversion of half floats is exact.
constexpr float kCodeFactor = 256;
inline Vec load_e4m3(const std::uint8_t* p) {
  const __m128i wide = _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i_u*>(p)));
  __m128i half = _mm_and_si128(_mm_slli_epi16(wide, 7), _mm_set1_epi16(static_cast<short>(0xbf80)));
  const __m128i top = _mm_set1_epi16(0x3f80);  // code 0x7f: NaN
  half = _mm_or_si128(half, _mm_and_si128(_mm_cmpeq_epi16(_mm_and_si128(half, top), top), _mm_set1_epi16(0x7e00)));
  return _mm256_cvtph_ps(half);
}

// Two vectors at once: most of the work is on half floats, which fit one register.
inline void load_e4m3_pair(const std::uint8_t* p, Vec& a, Vec& b) {
  const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i_u*>(p)));
  __m256i half = _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(static_cast<short>(0xbf80)));
  const __m256i top = _mm256_set1_epi16(0x3f80);
  half = _mm256_or_si256(
      half, _mm256_and_si256(_mm256_cmpeq_epi16(_mm256_and_si256(half, top), top), _mm256_set1_epi16(0x7e00)));
  a = _mm256_cvtph_ps(_mm256_castsi256_si128(half));
  b = _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1));
}

#include "kernels/cpu/rows.inc"

#include "kernels/cpu/gemm.inc"

#include "kernels/cpu/attention.inc"

}  // namespace avx2
}  // namespace

const CpuKernels& avx2_kernels() {
  static constexpr CpuKernels kTable = {avx2::widen,      avx2::narrow,      avx2::decode_row, avx2::add,
                                        avx2::add_scaled, avx2::rms_norm,    avx2::silu_mul,   avx2::quantize,
                                        avx2::gemm,       avx2::attend_span, avx2::merge_sums, avx2::finish_sums};
  return kTable;
}

}  // namespace fathom
