#include "base/hash_pair.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace fathom {

#if defined(__x86_64__)

namespace {

// FIPS 180-4, 4.2.2.
alignas(16) constexpr std::uint32_t kRounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// The eight words as the instructions want them: a, b, e, f and c, d, g, h, high lane first.
struct Words {
  __m128i abef, cdgh;
};

[[gnu::target("sha,sse4.1,ssse3")]] inline Words load(const std::array<std::uint32_t, 8>& s) {
  const auto pair = [](std::uint32_t high, std::uint32_t low) {
    return static_cast<long long>(std::uint64_t{high} << 32 | low);
  };
  return {_mm_set_epi64x(pair(s[0], s[1]), pair(s[4], s[5])), _mm_set_epi64x(pair(s[2], s[3]), pair(s[6], s[7]))};
}

[[gnu::target("sha,sse4.1,ssse3")]] inline void store(const Words& w, std::array<std::uint32_t, 8>& s) {
  alignas(16) std::uint32_t abef[4], cdgh[4];
  _mm_store_si128(reinterpret_cast<__m128i*>(abef), w.abef);
  _mm_store_si128(reinterpret_cast<__m128i*>(cdgh), w.cdgh);
  s = {abef[3], abef[2], cdgh[3], cdgh[2], abef[1], abef[0], cdgh[1], cdgh[0]};
}

// One computation's part of a block.
struct Lane {
  Words words, before;
  __m128i m[4];  // the last sixteen words of the message schedule, a ring
  const std::byte* from;

  [[gnu::target("sha,sse4.1,ssse3")]] inline void start_block() {
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    const auto* in = reinterpret_cast<const __m128i*>(from);
    m[0] = _mm_shuffle_epi8(_mm_loadu_si128(in), big_endian);
    m[1] = _mm_shuffle_epi8(_mm_loadu_si128(in + 1), big_endian);
    m[2] = _mm_shuffle_epi8(_mm_loadu_si128(in + 2), big_endian);
    m[3] = _mm_shuffle_epi8(_mm_loadu_si128(in + 3), big_endian);
    before = words;
    from += ShaStream::kBlock;
  }

  // Rounds 4 t to 4 t + 3.
  [[gnu::target("sha,sse4.1,ssse3")]] inline void rounds(int t) {
    if (t >= 4) {
      const __m128i last = m[(t + 3) % 4];
      const __m128i sum =
          _mm_add_epi32(_mm_sha256msg1_epu32(m[t % 4], m[(t + 1) % 4]), _mm_alignr_epi8(last, m[(t + 2) % 4], 4));
      m[t % 4] = _mm_sha256msg2_epu32(sum, last);
    }
    const __m128i sum = _mm_add_epi32(m[t % 4], _mm_load_si128(reinterpret_cast<const __m128i*>(kRounds + 4 * t)));
    words.cdgh = _mm_sha256rnds2_epu32(words.cdgh, words.abef, sum);
    words.abef = _mm_sha256rnds2_epu32(words.abef, words.cdgh, _mm_shuffle_epi32(sum, 0x0e));
  }

  [[gnu::target("sha,sse4.1,ssse3")]] inline void end_block() {
    words = {_mm_add_epi32(words.abef, before.abef), _mm_add_epi32(words.cdgh, before.cdgh)};
  }
};

[[gnu::target("sha,sse4.1,ssse3")]] inline void add_blocks(ShaStream& stream, std::span<const std::byte> data) {
  Lane lane{load(stream.state), {}, {}, data.data()};
  for (std::size_t left = data.size() / ShaStream::kBlock; left > 0; --left) {
    lane.start_block();
#pragma GCC unroll 16
    for (int t = 0; t < 16; ++t) lane.rounds(t);
    lane.end_block();
  }
  store(lane.words, stream.state);
}

[[gnu::target("sha,sse4.1,ssse3")]] inline void add_blocks(ShaStream& a, const std::byte* of_a, ShaStream& b,
                                                           const std::byte* of_b, std::size_t blocks) {
  Lane x{load(a.state), {}, {}, of_a}, y{load(b.state), {}, {}, of_b};
  for (; blocks > 0; --blocks) {
    x.start_block();
    y.start_block();
#pragma GCC unroll 16
    for (int t = 0; t < 16; ++t) {
      x.rounds(t);
      y.rounds(t);
    }
    x.end_block();
    y.end_block();
  }
  store(x.words, a.state);
  store(y.words, b.state);
}

}  // namespace

bool has_sha_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 29 & 1u) != 0 && __builtin_cpu_supports("sse4.1") &&
         __builtin_cpu_supports("ssse3");
}

#else

namespace {

void add_blocks(ShaStream&, std::span<const std::byte>) { fail("no SHA instructions"); }
void add_blocks(ShaStream&, const std::byte*, ShaStream&, const std::byte*, std::size_t) {
  fail("no SHA instructions");
}

}  // namespace

bool has_sha_instructions() { return false; }

#endif

std::span<const std::byte> ShaStream::begin(std::span<const std::byte> data) {
  const std::size_t held = bytes % kBlock;
  bytes += data.size();
  if (held == 0) return data;
  const std::size_t taken = std::min(kBlock - held, data.size());
  std::memcpy(tail.data() + held, data.data(), taken);
  if (held + taken == kBlock) add_blocks(*this, tail);
  return data.subspan(taken);
}

void ShaStream::end(std::span<const std::byte> rest) {
  if (!rest.empty()) std::memcpy(tail.data(), rest.data(), rest.size());
}

void ShaStream::update(std::span<const std::byte> data) {
  data = begin(data);
  add_blocks(*this, data);
  end(data.subspan(data.size() / kBlock * kBlock));
}

std::string ShaStream::finish_hex() {
  const std::uint64_t bits = bytes * 8;
  std::array<std::byte, 2 * kBlock> padding{std::byte{0x80}};
  const std::size_t held = bytes % kBlock;
  const std::size_t size = (held < kBlock - 8 ? kBlock : 2 * kBlock) - held;
  for (std::size_t i = 0; i < 8; ++i) padding[size - 1 - i] = static_cast<std::byte>(bits >> (8 * i));
  update(std::span(padding).first(size));
  std::string text;
  for (const std::uint32_t word : state) text += fmt::format("{:08x}", word);
  return text;
}

void update_both(ShaStream& a, ShaStream& b, std::span<const std::byte> data) {
  const auto of_a = a.begin(data), of_b = b.begin(data);
  const std::size_t blocks = std::min(of_a.size(), of_b.size()) / ShaStream::kBlock;
  add_blocks(a, of_a.data(), b, of_b.data(), blocks);
  const auto finish = [&](ShaStream& stream, std::span<const std::byte> rest) {
    rest = rest.subspan(blocks * ShaStream::kBlock);
    add_blocks(stream, rest);
    stream.end(rest.subspan(rest.size() / ShaStream::kBlock * ShaStream::kBlock));
  };
  finish(a, of_a);
  finish(b, of_b);
}

}  // namespace fathom
