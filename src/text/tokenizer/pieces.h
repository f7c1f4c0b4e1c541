// A piece of text on its way through the pre-tokenizers.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace fathom {

struct Piece {
  std::string_view text;
  bool first = false;  // begins where the whole input began
};

// Pieces and the texts that had to be made new for them.
struct PieceList {
  std::vector<Piece> pieces;
  std::deque<std::string> texts;
};

}  // namespace fathom
