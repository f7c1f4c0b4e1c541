#include "checkpoint/stored.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "checkpoint/json_text.h"
#include "checkpoint/slice.h"

namespace fathom {
namespace {

constexpr i64 kChunk = i64{1} << 20;  // bytes read at once where only some columns are wanted

}  // namespace

StoredCheckpoint::StoredCheckpoint(const FileCheckpoint& files) : files_(files) {
  for (const StoredTensor& tensor : files.stored()) tensors_.push_back(tensor.info);
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    CHECK(index_.emplace(tensors_[i].name, i).second, "{}: tensor {} appears twice", description(),
          shown(tensors_[i].name));
  for (const auto& file : files.files()) {
    const int fd = ::open(file->path().c_str(), O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0, "cannot open {}: {}", file->path().string(), std::strerror(errno));
    descriptors_.emplace(file.get(), fd);
  }
}

StoredCheckpoint::~StoredCheckpoint() {
  for (const auto& [file, fd] : descriptors_) ::close(fd);
}

const TensorInfo* StoredCheckpoint::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const TensorInfo* StoredCheckpoint::of_reference(std::string_view reference_name) const {
  const StoredTensor* place = files_.stored_of(reference_name);
  return place == nullptr ? nullptr : find(place->info.name);
}

std::string StoredCheckpoint::file_of(const TensorInfo& info) const {
  return files_.stored()[index_.at(info.name)].file->path().filename().string();
}

void StoredCheckpoint::read_at(const SafetensorsFile& file, i64 offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptors_.at(&file), out.data(), out.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    CHECK(got >= 0, "cannot read {}: {}", file.path().string(), std::strerror(errno));
    CHECK(got > 0, "{} became shorter while it was read", file.path().string());
    out = out.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
}

void StoredCheckpoint::prefetch(const TensorInfo& info, const Slice& slice) const {
  const auto found = index_.find(info.name);
  if (found == index_.end()) return;
  const SafetensorsFile& file = *files_.stored()[found->second].file;
  const TensorInfo& whole = tensors_[found->second];
  const bool rows = slice.dim == 0 && whole.shape[0] > 0;
  const i64 row = rows ? whole.bytes() / whole.shape[0] : 0;
  ::posix_fadvise(descriptors_.at(&file), file.offset(whole.name) + (rows ? row * slice.start : 0),
                  rows ? row * slice.length : whole.bytes(), POSIX_FADV_WILLNEED);
}

void StoredCheckpoint::read(const TensorInfo& info, const Slice& slice, std::span<std::byte> out) const {
  const auto found = index_.find(info.name);
  CHECK(found != index_.end(), "{} has no tensor {}", description(), shown(info.name));
  const SafetensorsFile& file = *files_.stored()[found->second].file;
  const TensorInfo& whole = tensors_[found->second];
  const Shape part = slice_shape(whole, slice);
  CHECK(static_cast<i64>(out.size()) == part.numel() * size_of(whole.dtype), "reading {}: {} bytes of room", info.name,
        out.size());
  if (out.empty()) return;
  const i64 offset = file.offset(whole.name);
  if (slice.dim <= 0) {
    const i64 row = slice.dim < 0 ? 0 : whole.bytes() / whole.shape[0] * slice.start;
    return read_at(file, offset + row, out);
  }
  // Some columns: whole rows are read and cut, a bounded number at a time.
  const i64 row_bytes = whole.bytes() / whole.shape[0], part_bytes = static_cast<i64>(out.size()) / whole.shape[0];
  const i64 step = std::max<i64>(1, kChunk / row_bytes);
  std::vector<std::byte> rows;
  TensorInfo chunk = whole;
  for (i64 row = 0; row < whole.shape[0]; row += step) {
    chunk.shape[0] = std::min(step, whole.shape[0] - row);
    rows.resize(static_cast<std::size_t>(chunk.shape[0] * row_bytes));
    read_at(file, offset + row * row_bytes, rows);
    copy_slice(
        chunk, slice, rows,
        out.subspan(static_cast<std::size_t>(row * part_bytes), static_cast<std::size_t>(chunk.shape[0] * part_bytes)));
  }
}

}  // namespace fathom
