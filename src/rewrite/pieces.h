// A tensor's bytes in pieces: what is read through a map would stay in the memory of this process.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "checkpoint/safetensors.h"

namespace fathom {

class Pieces {
 public:
  Pieces(const SafetensorsFile& file, const TensorInfo& info)
      : file_(file),
        offset_(file.offset(info.name)),
        left_(static_cast<i64>(file.bytes(info.name).size())),
        buffer_(static_cast<std::size_t>(kPieceBytes)) {}

  // The next piece, of whole elements; empty at the end.
  std::span<const std::byte> next() {
    const auto piece = std::span(buffer_).first(static_cast<std::size_t>(std::min(left_, kPieceBytes)));
    file_.read_at(offset_, piece);
    offset_ += static_cast<i64>(piece.size());
    left_ -= static_cast<i64>(piece.size());
    return piece;
  }

 private:
  static constexpr i64 kPieceBytes = i64{1} << 20;
  const SafetensorsFile& file_;
  i64 offset_, left_;
  std::vector<std::byte> buffer_;
};

}  // namespace fathom
