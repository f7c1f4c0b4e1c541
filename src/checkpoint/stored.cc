#include "checkpoint/stored.h"

#include "checkpoint/json_text.h"

namespace fathom {

StoredCheckpoint::StoredCheckpoint(const FileCheckpoint& files) : files_(files) {
  for (const StoredTensor& tensor : files.stored()) tensors_.push_back(tensor.info);
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    CHECK(index_.emplace(tensors_[i].name, i).second, "{}: tensor {} appears twice", description(),
          shown(tensors_[i].name));
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

void StoredCheckpoint::prefetch(const TensorInfo& info, const Slice& slice) const {
  if (const auto found = index_.find(info.name); found != index_.end())
    prefetch_stored(files_.stored()[found->second], slice);
}

void StoredCheckpoint::read(const TensorInfo& info, const Slice& slice, std::span<std::byte> out) const {
  const auto found = index_.find(info.name);
  CHECK(found != index_.end(), "{} has no tensor {}", description(), shown(info.name));
  read_stored(files_.stored()[found->second], slice, out);
}

}  // namespace fathom
