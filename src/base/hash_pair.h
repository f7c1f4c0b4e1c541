// SHA-256 with the processor's SHA instructions, two computations in step: one alone waits for its own results most of
// the time. Library code has it for one only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace fathom {

// True when this processor has the instructions that the rest of this file needs.
bool has_sha_instructions();

// One SHA-256 computation as FIPS 180-4 has it; bytes that fill no block yet wait in `tail`.
struct ShaStream {
  static constexpr std::size_t kBlock = 64;

  std::array<std::uint32_t, 8> state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, kBlock> tail{};
  std::uint64_t bytes = 0;  // in all

  void update(std::span<const std::byte> data);
  std::string finish_hex();

  // Fills the tail; what remains of `data` are blocks and less than one block. The caller adds the blocks to `state`.
  std::span<const std::byte> begin(std::span<const std::byte> data);
  // Keeps the bytes behind the last block.
  void end(std::span<const std::byte> rest);
};

// a.update(data) and b.update(data).
void update_both(ShaStream& a, ShaStream& b, std::span<const std::byte> data);

}  // namespace fathom
