#include "checkpoint/stream.h"

#include <algorithm>
#include <future>
#include <optional>
#include <unordered_map>

#include "base/hash.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/slice.h"

namespace fathom {
namespace {

constexpr i64 kBatchBytes = i64{32} << 20;  // two batches are in memory
constexpr i64 kPieceBytes = i64{2} << 20;
constexpr i64 kCostlyPiece = 64;   // numbers
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
i64 rows_of_piece(const TensorInfo& source, const Shape& part, bool costly) {
  const i64 row = part[0] == 0 ? 1 : std::max<i64>(1, part.numel() / part[0]);
  if (costly) return std::max<i64>(1, kCostlyPiece / row);
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
  const i64 step = rows_of_piece(*item.source, part, item.costly);
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

// The digest of a file whose bytes come batch by batch. The two parts may run on different threads.
class Digester {
 public:
  explicit Digester(const SafetensorsWriter& writer) : writer_(writer) {
    whole_.update(std::as_bytes(std::span(writer.header())));
    bytes_ = static_cast<i64>(writer.header().size());
    start_tensors();
  }

  void add_to_file(std::span<const std::byte> bytes) {
    whole_.update(bytes);
    bytes_ += static_cast<i64>(bytes.size());
  }

  void add_to_tensors(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto part = bytes.first(static_cast<std::size_t>(std::min(left_, static_cast<i64>(bytes.size()))));
      tensor_.update(part);
      left_ -= static_cast<i64>(part.size());
      bytes = bytes.subspan(part.size());
      if (left_ > 0) continue;
      finish_tensor();
      start_tensors();
    }
  }

  FileDigest result() { return {bytes_, whole_.hex(), writer_.tensors(), std::move(done_)}; }

 private:
  void finish_tensor() {
    done_.push_back(tensor_.hex());
    tensor_ = Sha256();
  }

  // Goes on with the next tensor that has bytes.
  void start_tensors() {
    while (done_.size() < writer_.tensors().size() && (left_ = writer_.tensors()[done_.size()].bytes()) == 0)
      finish_tensor();
  }

  const SafetensorsWriter& writer_;
  Sha256 whole_, tensor_;
  i64 bytes_ = 0, left_ = 0;
  std::vector<std::string> done_;
};

// Writes batches, and digests them, while the next ones are read. Each call waits for what the last one began.
class Output {
 public:
  Output(SafetensorsWriter& writer, Digester* digester) : writer_(writer), digester_(digester) {}

  void start(const std::vector<std::byte>& bytes) {
    wait();
    running_.push_back(std::async(std::launch::async, [&] { writer_.write(bytes); }));
    if (digester_ == nullptr) return;
    running_.push_back(std::async(std::launch::async, [&] { digester_->add_to_file(bytes); }));
    running_.push_back(std::async(std::launch::async, [&] { digester_->add_to_tensors(bytes); }));
  }

  void wait() {
    for (std::future<void>& task : running_) task.get();
    running_.clear();
  }

 private:
  SafetensorsWriter& writer_;
  Digester* digester_;
  std::vector<std::future<void>> running_;
};

}  // namespace

void stream_tensors(const Checkpoint& checkpoint, const std::vector<StreamItem>& items,
                    const std::filesystem::path& path, ThreadPool& pool, const std::function<void(i64 bytes)>& progress,
                    FileDigest* digest) {
  std::unordered_map<std::string_view, const StreamItem*> by_name;
  std::vector<TensorInfo> stored;
  for (const StreamItem& item : items) {
    stored.push_back({item.stored_name, item.source->dtype, slice_shape(*item.source, item.slice)});
    by_name.emplace(item.stored_name, &item);
  }
  SafetensorsWriter writer(path, std::move(stored));
  std::vector<Batch> batches;
  for (const TensorInfo& info : writer.tensors()) append_cut(batches, *by_name.at(info.name));

  std::optional<Digester> digester;
  if (digest != nullptr) digester.emplace(writer);
  std::vector<std::byte> buffers[2];
  Output output(writer, digester ? &*digester : nullptr);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    std::vector<std::byte>& buffer = buffers[i % 2];
    read_batch(checkpoint, batches[i], pool, buffer);
    output.start(buffer);
    if (progress) progress(batches[i].bytes);
  }
  output.wait();
  writer.finish();
  if (digest != nullptr) *digest = digester->result();
}

}  // namespace fathom
