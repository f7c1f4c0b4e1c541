// How the tensors of a file to write are cut into batches that are read, hashed and written together.
#pragma once

#include <vector>

#include "checkpoint/stream.h"

namespace fathom {

// Some rows of a source tensor.
struct StreamPiece {
  const TensorInfo* source;
  Slice slice;
  i64 offset, bytes;  // in the batch
};

// Consecutive pieces of the file.
struct StreamBatch {
  std::vector<StreamPiece> pieces;
  i64 offset = 0, bytes = 0;  // in the file
};

// Cuts the items, which stand in the order of the file, behind a header of `header_bytes`. The cuts depend on nothing
// else, so that an interrupted file is continued at one of them.
std::vector<StreamBatch> cut_into_batches(const std::vector<const StreamItem*>& items, i64 header_bytes);

}  // namespace fathom
