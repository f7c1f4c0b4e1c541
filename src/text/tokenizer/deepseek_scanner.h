// The three patterns by which DeepSeek-V3 cuts text, as one hand-written pass; equal to the regular expressions,
// faster.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer/pieces.h"

namespace fathom {

class DeepSeekScanner {
 public:
  DeepSeekScanner();

  // True if three consecutive Split patterns (isolated, not inverted) are the ones this class stands for.
  static bool stands_for(std::span<const std::string> patterns);

  // Appends the pieces of a valid UTF-8 text.
  void scan(Piece text, std::vector<Piece>& out) const;

 private:
  std::vector<std::uint8_t> classes_;  // [code point] -> bits, see the .cc
};

}  // namespace fathom
