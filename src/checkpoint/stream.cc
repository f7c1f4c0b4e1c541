#include "checkpoint/stream.h"

#include <algorithm>
#include <future>
#include <unordered_map>

#include "checkpoint/safetensors.h"
#include "checkpoint/slice.h"

namespace fathom {
namespace {

constexpr i64 kBatchBytes = i64{32} << 20;  // two batches are in memory
constexpr i64 kPieceBytes = i64{2} << 20;
constexpr i64 kScalePiece = 64;    // numbers: a synthetic scale costs as much as its whole block
constexpr i64 kRowMultiple = 128;  // pieces of quantised matrices consist of whole blocks

struct Piece {
  const TensorInfo* source;
  Slice slice;
  i64 offset, bytes;  // in the batch
};

// Consecutive pieces that are read and written together.
struct Batch {
  std::vector<Piece> pieces;
  i64 bytes = 0;
};

// Rows of the first dimension that make a piece.
i64 rows_of_piece(const TensorInfo& source, const Shape& part) {
  const i64 row = part[0] == 0 ? 1 : std::max<i64>(1, part.numel() / part[0]);
  if (source.name.ends_with(".scale")) return std::max<i64>(1, kScalePiece / row);
  const i64 rows = std::max<i64>(1, kPieceBytes / (row * size_of(source.dtype)));
  return (rows + kRowMultiple - 1) / kRowMultiple * kRowMultiple;
}

void append(std::vector<Batch>& batches, const TensorInfo& source, const Slice& slice) {
  const i64 bytes = slice_shape(source, slice).numel() * size_of(source.dtype);
  if (batches.empty() || batches.back().bytes + bytes > kBatchBytes) batches.emplace_back();
  batches.back().pieces.push_back({&source, slice, batches.back().bytes, bytes});
  batches.back().bytes += bytes;
}

// Cuts along the first dimension, where the part is whole in all others; a part cut elsewhere is one piece.
void append_cut(std::vector<Batch>& batches, const StreamItem& item) {
  const Shape part = slice_shape(*item.source, item.slice);
  if (item.slice.dim > 0 || part.rank() == 0) return append(batches, *item.source, item.slice);
  const i64 first = item.slice.dim == 0 ? item.slice.start : 0;
  const i64 step = rows_of_piece(*item.source, part);
  for (i64 row = 0; row < part[0]; row += step)
    append(batches, *item.source, {0, first + row, std::min(step, part[0] - row)});
}

void read_batch(const Checkpoint& checkpoint, const Batch& batch, ThreadPool& pool, std::vector<std::byte>& buffer) {
  buffer.resize(static_cast<std::size_t>(batch.bytes));
  pool.parallel_for(static_cast<i64>(batch.pieces.size()), 1, [&](i64 begin, i64 end, int) {
    for (i64 i = begin; i < end; ++i) {
      const Piece& piece = batch.pieces[static_cast<std::size_t>(i)];
      const auto room =
          std::span(buffer).subspan(static_cast<std::size_t>(piece.offset), static_cast<std::size_t>(piece.bytes));
      checkpoint.read(*piece.source, piece.slice, room);
    }
  });
}

}  // namespace

void stream_tensors(const Checkpoint& checkpoint, const std::vector<StreamItem>& items,
                    const std::filesystem::path& path, ThreadPool& pool,
                    const std::function<void(i64 bytes)>& progress) {
  std::unordered_map<std::string_view, const StreamItem*> by_name;
  std::vector<TensorInfo> stored;
  for (const StreamItem& item : items) {
    stored.push_back({item.stored_name, item.source->dtype, slice_shape(*item.source, item.slice)});
    by_name.emplace(item.stored_name, &item);
  }
  SafetensorsWriter writer(path, std::move(stored));
  std::vector<Batch> batches;
  for (const TensorInfo& info : writer.tensors()) append_cut(batches, *by_name.at(info.name));

  std::vector<std::byte> buffers[2];
  std::future<void> writing;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    std::vector<std::byte>& buffer = buffers[i % 2];
    read_batch(checkpoint, batches[i], pool, buffer);
    if (writing.valid()) writing.get();
    writing = std::async(std::launch::async, [&writer, &buffer] { writer.write(buffer); });
    if (progress) progress(batches[i].bytes);
  }
  if (writing.valid()) writing.get();
  writer.finish();
}

}  // namespace fathom
