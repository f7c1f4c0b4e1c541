#include "quant/e4m3_table.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fathom {
namespace {

#if defined(__x86_64__)

bool has_vectors() { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"); }

// 32 codes a step; returns how many are done. The table without its negative half fills four registers.
[[gnu::target("avx512f,avx512bw")]] i64 look_up_vectors(const e4m3_bits* codes, const CodeTable& table, i64 n,
                                                        bf16_bits* y) {
  const bf16_bits* t = table.data();
  const __m512i t0 = _mm512_loadu_si512(t), t1 = _mm512_loadu_si512(t + 32);
  const __m512i t2 = _mm512_loadu_si512(t + 64), t3 = _mm512_loadu_si512(t + 96);
  const __m512i upper_half = _mm512_set1_epi16(0x40), sign = _mm512_set1_epi16(0x80);
  i64 i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + i));
    const __m512i code = _mm512_maskz_cvtepu8_epi16(~__mmask32{0}, bytes);
    const __m512i low = _mm512_permutex2var_epi16(t0, code, t1), high = _mm512_permutex2var_epi16(t2, code, t3);
    const __m512i magnitude = _mm512_mask_mov_epi16(low, _mm512_test_epi16_mask(code, upper_half), high);
    const __m512i signs = _mm512_maskz_slli_epi16(~__mmask32{0}, _mm512_and_si512(code, sign), 8);
    _mm512_storeu_si512(y + i, _mm512_xor_si512(magnitude, signs));
  }
  return i;
}

#else

bool has_vectors() { return false; }
i64 look_up_vectors(const e4m3_bits*, const CodeTable&, i64, bf16_bits*) { return 0; }

#endif

}  // namespace

void look_up(const e4m3_bits* codes, const CodeTable& table, i64 n, bf16_bits* y) {
  for (i64 i = has_vectors() ? look_up_vectors(codes, table, n, y) : 0; i < n; ++i) y[i] = table[codes[i]];
}

i64 first_nan(const e4m3_bits* codes, i64 n) {
  // Of eight codes at once: one more than what stands beside the sign has the upper bit only if that was 0x7f.
  const auto marks = [&](i64 at) {
    std::uint64_t eight;
    std::memcpy(&eight, codes + at, sizeof eight);
    return (eight & 0x7f7f7f7f7f7f7f7fu) + 0x0101010101010101u;
  };
  constexpr std::uint64_t kUpper = 0x8080808080808080u;
  i64 i = 0;
  for (; i + 32 <= n; i += 32)
    if (((marks(i) | marks(i + 8) | marks(i + 16) | marks(i + 24)) & kUpper) != 0) break;
  const auto* found = std::find_if(codes + i, codes + n, [](e4m3_bits code) { return (code & 0x7fu) == 0x7fu; });
  return found == codes + n ? -1 : found - codes;
}

}  // namespace fathom
