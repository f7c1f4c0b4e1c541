#include "checkpoint/stream.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/hash.h"
#include "base/partial_file.h"
#include "base/stage.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/slice.h"
#include "checkpoint/stream_batches.h"
#include "checkpoint/stream_hasher.h"

namespace fathom {
namespace {

constexpr i64 kSlots = 4;  // batches in memory
constexpr i64 kAlignment = static_cast<i64>(kFileAlignment);

// Appends to a file in aligned pieces: what fills no page yet waits for the bytes after it.
class AlignedAppender {
 public:
  explicit AlignedAppender(PartialFile& file) : file_(file) {}

  // Where the next bytes must lie in an aligned buffer, behind room for those that wait.
  static i64 gap(i64 offset) { return offset % kAlignment; }

  // Goes on at `offset`, up to which the file is kept.
  void start_at(i64 offset) {
    waiting_ = gap(offset);
    file_.read(offset - waiting_, std::span(tail_).first(static_cast<std::size_t>(waiting_)));
    file_.seek(offset - waiting_);
  }

  // `buffer`: gap() bytes of room, then the bytes.
  void append(std::span<std::byte> buffer) {
    std::memcpy(buffer.data(), tail_.data(), static_cast<std::size_t>(waiting_));
    const auto whole = buffer.first(buffer.size() / kFileAlignment * kFileAlignment);
    file_.write(whole);
    const auto rest = buffer.subspan(whole.size());
    std::memcpy(tail_.data(), rest.data(), rest.size());
    waiting_ = static_cast<i64>(rest.size());
  }

  void finish() { file_.write(std::span(tail_).first(static_cast<std::size_t>(waiting_))); }

 private:
  PartialFile& file_;
  std::array<std::byte, kFileAlignment> tail_;
  i64 waiting_ = 0;
};

// The file to write: its tensors in their order, and what is done of it.
class Output {
 public:
  Output(const std::vector<StreamItem>& items, const std::filesystem::path& path, const StreamOptions& options)
      : options_(options),
        tensors_(infos(items)),
        header_(safetensors_header(tensors_, {{"format", "pt"}})),
        batches_(cut(items)),
        file_(path, total(), options.resume),
        appender_(file_) {
    if (options.hash) hashes_.emplace(tensors_);
    start();
  }

  i64 count() const { return static_cast<i64>(batches_.size()); }
  i64 first() const { return first_; }  // the batch to begin with
  i64 kept_bytes() const { return first_ == 0 ? 0 : batch(first_).offset - header_bytes(); }
  const StreamBatch& batch(i64 i) const { return batches_[static_cast<std::size_t>(i)]; }

  // The bytes of batch i in its slot.
  std::span<std::byte> room(i64 i) {
    const i64 gap = AlignedAppender::gap(batch(i).offset);
    return slots_[static_cast<std::size_t>(i % kSlots)]
        .room(static_cast<std::size_t>(gap + batch(i).bytes))
        .subspan(static_cast<std::size_t>(gap));
  }

  // Each of these is called by one thread, in the order of the batches.
  void write(i64 i) {
    const i64 gap = AlignedAppender::gap(batch(i).offset);
    const std::span<std::byte> bytes = room(i);
    appender_.append({bytes.data() - gap, bytes.size() + static_cast<std::size_t>(gap)});
    unmarked_ += batch(i).bytes;
    if (unmarked_ < options_.mark_bytes || i + 1 == count()) return;
    file_.mark();
    unmarked_ = 0;
  }
  void hash_file(i64 i) { hashes_->file.update(room(i)); }
  void hash_tensors(i64 i) { hashes_->tensors.update(room(i)); }
  void hash_both(i64 i) { hashes_->tensors.update_with(hashes_->file, room(i)); }

  FileDigest finish() {
    appender_.finish();
    file_.commit();
    FileDigest digest;
    digest.bytes = total();
    digest.tensors = tensors_;
    digest.kept_bytes = kept_bytes();
    if (!hashes_) return digest;
    digest.sha256 = hashes_->file.hex();
    digest.tensor_sha256 = std::move(hashes_->tensors).result();
    return digest;
  }

 private:
  struct Hashes {
    explicit Hashes(const std::vector<TensorInfo>& infos) : tensors(infos) {}
    Sha256 file;
    TensorHasher tensors;
  };

  static std::vector<TensorInfo> infos(const std::vector<StreamItem>& items) {
    std::vector<TensorInfo> all;
    all.reserve(items.size());
    for (const StreamItem& item : items)
      all.push_back({item.stored_name, item.source->dtype, slice_shape(*item.source, item.slice)});
    return in_write_order(std::move(all));
  }

  std::vector<StreamBatch> cut(const std::vector<StreamItem>& items) const {
    std::unordered_map<std::string_view, const StreamItem*> by_name;
    for (const StreamItem& item : items) by_name.emplace(item.stored_name, &item);
    std::vector<const StreamItem*> ordered;
    ordered.reserve(tensors_.size());
    for (const TensorInfo& info : tensors_) ordered.push_back(by_name.at(info.name));
    return cut_into_batches(ordered, header_bytes());
  }

  i64 header_bytes() const { return static_cast<i64>(header_.size()); }
  i64 total() const { return batches_.empty() ? header_bytes() : batches_.back().offset + batches_.back().bytes; }

  // Takes over the batches that an earlier run wrote, or writes the header.
  void start() {
    while (first_ < count() && batch(first_).offset + batch(first_).bytes <= file_.kept()) ++first_;
    if (first_ == count() && first_ > 0) --first_;  // what is kept is never all of a file
    if (first_ > 0 && !same_header()) first_ = 0;
    if (first_ == 0) {
      file_.seek(0);
      const std::span<std::byte> bytes = slots_[0].room(header_.size());
      std::memcpy(bytes.data(), header_.data(), header_.size());
      if (hashes_) hashes_->file.update(bytes);
      return appender_.append(bytes);
    }
    if (hashes_) hash_kept();
    appender_.start_at(batch(first_).offset);
  }

  bool same_header() const {
    std::string kept(header_.size(), '\0');
    file_.read(0, std::as_writable_bytes(std::span(kept)));
    return kept == header_;
  }

  // Hashes know no pause: what is kept is read once more.
  void hash_kept() {
    Stage of_tensors([this](i64 i) { hash_tensors(i); });
    hashes_->file.update(std::as_bytes(std::span(header_)));
    for (i64 i = 0; i < first_; ++i) {
      of_tensors.wait_for(i - kSlots);
      file_.read(batch(i).offset, room(i));
      of_tensors.give();
      hash_file(i);
    }
    of_tensors.wait_for(first_ - 1);
  }

  const StreamOptions& options_;
  std::vector<TensorInfo> tensors_;
  std::string header_;
  std::vector<StreamBatch> batches_;
  PartialFile file_;
  AlignedAppender appender_;
  std::array<AlignedBuffer, kSlots> slots_;
  std::optional<Hashes> hashes_;
  i64 first_ = 0;
  i64 unmarked_ = 0;  // bytes written since the last mark
};

void read_batch(const Checkpoint& checkpoint, const StreamBatch& batch, ThreadPool& pool, std::span<std::byte> out) {
  pool.parallel_for(static_cast<i64>(batch.pieces.size()), 1, [&](i64 begin, i64 end, int) {
    for (i64 i = begin; i < end; ++i) {
      const StreamPiece& piece = batch.pieces[static_cast<std::size_t>(i)];
      checkpoint.read(*piece.source, piece.slice,
                      out.subspan(static_cast<std::size_t>(piece.offset), static_cast<std::size_t>(piece.bytes)));
    }
  });
}

}  // namespace

FileDigest stream_tensors(const Checkpoint& checkpoint, const std::vector<StreamItem>& items,
                          const std::filesystem::path& path, ThreadPool& pool, const StreamOptions& options) {
  Output output(items, path, options);
  const i64 first = output.first();
  const auto hear = [&](i64 bytes) {
    if (options.progress && bytes > 0) options.progress(bytes);
  };
  hear(output.kept_bytes());
  std::vector<std::unique_ptr<Stage>> stages;
  stages.push_back(std::make_unique<Stage>([&](i64 i) { output.write(first + i); }));
  if (options.hash && !options.alone) {
    stages.push_back(std::make_unique<Stage>([&](i64 i) { output.hash_both(first + i); }));
  } else if (options.hash) {
    stages.push_back(std::make_unique<Stage>([&](i64 i) { output.hash_file(first + i); }));
    stages.push_back(std::make_unique<Stage>([&](i64 i) { output.hash_tensors(first + i); }));
  }
  const auto wait_for = [&](i64 i) {
    for (const auto& stage : stages) stage->wait_for(i - first);
    if (i >= first) hear(output.batch(i).bytes);
  };
  for (i64 i = first; i < output.count(); ++i) {
    wait_for(i - kSlots);
    if (i + 1 < output.count())
      for (const StreamPiece& next : output.batch(i + 1).pieces) checkpoint.prefetch(*next.source, next.slice);
    read_batch(checkpoint, output.batch(i), pool, output.room(i));
    for (const auto& stage : stages) stage->give();
  }
  for (i64 i = std::max(first, output.count() - kSlots); i < output.count(); ++i) wait_for(i);
  stages.clear();
  return output.finish();
}

}  // namespace fathom
