#include "checkpoint/file_checkpoint.h"

#include <algorithm>

#include "base/numeric.h"
#include "checkpoint/json_text.h"
#include "checkpoint/slice.h"

namespace fathom {
namespace {

bool is_scale(std::string_view reference_name) { return reference_name.ends_with(".scale"); }

// Scales are stored as float32, bf16 or e8m0; all of their values are exact in float32.
void widen(DType dtype, const std::vector<std::byte>& stored, std::span<std::byte> out) {
  auto* values = reinterpret_cast<float*>(out.data());
  const std::size_t count = out.size() / sizeof(float);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = dtype == DType::e8m0 ? e8m0_to_float(static_cast<e8m0_bits>(stored[i]))
                                     : bf16_to_float(reinterpret_cast<const bf16_bits*>(stored.data())[i]);
}

constexpr i64 kChunk = i64{1} << 20;  // bytes read at once where only some columns are wanted

}  // namespace

void read_stored(const StoredTensor& tensor, const Slice& slice, std::span<std::byte> out) {
  const SafetensorsFile* file = tensor.file;
  const TensorInfo& whole = tensor.info;
  const Shape part = slice_shape(whole, slice);
  CHECK(static_cast<i64>(out.size()) == part.numel() * size_of(whole.dtype), "reading {} {}: {} bytes of room",
        whole.name, to_string(part), out.size());
  if (out.empty()) return;
  const i64 offset = tensor.offset();
  if (slice.dim <= 0) {
    const i64 row = slice.dim < 0 ? 0 : whole.bytes() / whole.shape[0] * slice.start;
    return file->read_at(offset + row, out);
  }
  // Some columns: whole rows are read and cut, a bounded number at a time.
  const i64 row_bytes = whole.bytes() / whole.shape[0], part_bytes = static_cast<i64>(out.size()) / whole.shape[0];
  const i64 step = std::max<i64>(1, kChunk / row_bytes);
  std::vector<std::byte> rows;
  TensorInfo chunk = whole;
  for (i64 row = 0; row < whole.shape[0]; row += step) {
    chunk.shape[0] = std::min(step, whole.shape[0] - row);
    rows.resize(static_cast<std::size_t>(chunk.shape[0] * row_bytes));
    file->read_at(offset + row * row_bytes, rows);
    copy_slice(
        chunk, slice, rows,
        out.subspan(static_cast<std::size_t>(row * part_bytes), static_cast<std::size_t>(chunk.shape[0] * part_bytes)));
  }
}

void prefetch_stored(const StoredTensor& tensor, const Slice& slice) {
  const TensorInfo& whole = tensor.info;
  const bool rows = slice.dim == 0 && whole.shape[0] > 0;
  const i64 row = rows ? whole.bytes() / whole.shape[0] : 0;
  tensor.file->prefetch(tensor.offset() + (rows ? row * slice.start : 0), rows ? row * slice.length : whole.bytes());
}

FileCheckpoint::FileCheckpoint(std::filesystem::path directory, int shards, bool hf_names)
    : directory_(std::move(directory)), shards_(shards), hf_names_(hf_names) {}

std::string FileCheckpoint::stored_name(const std::string& name) const {
  if (const StoredTensor* stored = stored_of(name))
    return shown(stored->info.name) + (stored->is_part() ? fmt::format(" (in {})", shown(stored->whole->name)) : "");
  return hf_names_ ? hf_name(name).value_or(name) : name;
}

const TensorInfo* FileCheckpoint::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const StoredTensor* FileCheckpoint::stored_of(std::string_view reference_name) const {
  const auto found = index_.find(std::string(reference_name));
  return found == index_.end() ? nullptr : &places_[found->second];
}

void FileCheckpoint::read(const TensorInfo& info, const Slice& slice, std::span<std::byte> out) const {
  const auto found = index_.find(info.name);
  CHECK(found != index_.end(), "{} has no tensor {}", description(), info.name);
  const TensorInfo& stored = places_[found->second].info;
  const TensorInfo& known = tensors_[found->second];
  if (known.dtype == stored.dtype) return read_stored(places_[found->second], slice, out);
  const i64 count = slice_shape(known, slice).numel();
  CHECK(static_cast<i64>(out.size()) == count * size_of(known.dtype), "reading {}: {} bytes of room for {} numbers",
        info.name, out.size(), count);
  std::vector<std::byte> narrow(static_cast<std::size_t>(count * size_of(stored.dtype)));
  read_stored(places_[found->second], slice, narrow);
  widen(stored.dtype, narrow, out);
}

const std::byte* FileCheckpoint::map(const TensorInfo& info) const {
  const StoredTensor* place = stored_of(info.name);
  if (place == nullptr || place->info.dtype != info.dtype) return nullptr;
  const std::byte* bytes = place->file->bytes(place->whole->name).data() + place->begin;
  const auto misplaced = reinterpret_cast<std::uintptr_t>(bytes) % static_cast<std::uintptr_t>(size_of(info.dtype));
  return misplaced == 0 ? bytes : nullptr;
}

void FileCheckpoint::prefetch(const TensorInfo& info, const Slice& slice) const {
  if (const StoredTensor* place = stored_of(info.name)) prefetch_stored(*place, slice);
}

const SafetensorsFile& FileCheckpoint::add_file(const std::filesystem::path& path) {
  files_.push_back(std::make_unique<SafetensorsFile>(path));
  return *files_.back();
}

void FileCheckpoint::add_tensor(const StoredTensor& place, const std::string& reference_name) {
  const TensorInfo& stored = place.info;
  const auto [entry, added] = index_.emplace(reference_name, tensors_.size());
  if (!added) {
    const StoredTensor& first = places_[entry->second];
    fail("tensor {} appears twice: in {} and in {}", shown(stored.name), first.file->path().string(),
         place.file->path().string());
  }
  TensorInfo info = stored;
  info.name = reference_name;
  if (is_scale(reference_name)) {
    CHECK(stored.dtype == DType::f32 || stored.dtype == DType::bf16 || stored.dtype == DType::e8m0,
          "{}: scale {} is of type {}; f32, bf16 and e8m0 are supported", place.file->path().string(),
          shown(stored.name), name_of(stored.dtype));
    info.dtype = DType::f32;
  }
  tensors_.push_back(std::move(info));
  places_.push_back(place);
  stored_.push_back(place);
}

void FileCheckpoint::add_untranslated(const SafetensorsFile& file, const std::string& stored_name) {
  if (const TensorInfo* stored = file.find(stored_name)) stored_.push_back({&file, *stored, stored});
  untranslated_.push_back(shown(stored_name));
}

void FileCheckpoint::add_unnamed(const std::string& stored_name) {
  untranslated_.push_back(shown(stored_name) + " (not in the index)");
}

void FileCheckpoint::alias(const std::string& name, const std::string& existing) {
  const auto found = index_.find(existing);
  if (found == index_.end() || index_.contains(name)) return;
  const std::size_t at = found->second;
  index_.emplace(name, tensors_.size());
  TensorInfo info = tensors_[at];
  info.name = name;
  tensors_.push_back(std::move(info));
  places_.push_back(StoredTensor(places_[at]));
}

std::vector<std::filesystem::path> safetensors_files(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    if (entry.path().extension() == ".safetensors" && !entry.is_directory()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace fathom
