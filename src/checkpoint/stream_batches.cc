#include "checkpoint/stream_batches.h"

#include <algorithm>

#include "checkpoint/slice.h"

namespace fathom {
namespace {

constexpr i64 kBatchBytes = i64{16} << 20;
constexpr i64 kPieceBytes = i64{2} << 20;
constexpr i64 kCostlyPiece = 64;   // numbers
constexpr i64 kRowMultiple = 128;  // pieces of quantised matrices consist of whole blocks

// Rows of the first dimension that make a piece.
i64 rows_of_piece(const TensorInfo& source, const Shape& part, bool costly) {
  const i64 row = part[0] == 0 ? 1 : std::max<i64>(1, part.numel() / part[0]);
  if (costly) return std::max<i64>(1, kCostlyPiece / row);
  const i64 rows = std::max<i64>(1, kPieceBytes / (row * size_of(source.dtype)));
  if (part.rank() > 2) return rows;  // whole matrices, which may be large
  return (rows + kRowMultiple - 1) / kRowMultiple * kRowMultiple;
}

void append(std::vector<StreamBatch>& batches, const TensorInfo& source, const Slice& slice) {
  const i64 bytes = slice_shape(source, slice).numel() * size_of(source.dtype);
  if (StreamBatch& last = batches.back(); last.bytes > 0 && last.bytes + bytes > kBatchBytes) {
    const i64 end = last.offset + last.bytes;
    batches.emplace_back().offset = end;
  }
  StreamBatch& batch = batches.back();
  batch.pieces.push_back({&source, slice, batch.bytes, bytes});
  batch.bytes += bytes;
}

// Cuts along the first dimension, where the part is whole in all others; a part cut elsewhere is one piece.
void append_cut(std::vector<StreamBatch>& batches, const StreamItem& item) {
  const Shape part = slice_shape(*item.source, item.slice);
  if (item.slice.dim > 0 || part.rank() == 0) return append(batches, *item.source, item.slice);
  const i64 first = item.slice.dim == 0 ? item.slice.start : 0;
  const i64 step = rows_of_piece(*item.source, part, item.costly);
  for (i64 row = 0; row < part[0]; row += step)
    append(batches, *item.source, {0, first + row, std::min(step, part[0] - row)});
}

}  // namespace

std::vector<StreamBatch> cut_into_batches(const std::vector<const StreamItem*>& items, i64 header_bytes) {
  std::vector<StreamBatch> batches(1);
  batches.front().offset = header_bytes;
  for (const StreamItem* item : items) append_cut(batches, *item);
  if (batches.back().bytes == 0) batches.pop_back();
  return batches;
}

}  // namespace fathom
