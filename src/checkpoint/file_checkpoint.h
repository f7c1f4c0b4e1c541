// A checkpoint in safetensors files of one directory, and the two layouts of such directories.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"

namespace fathom {

// A tensor as a file holds it, or one of those that a file holds as one: some rows of it, one after the other.
struct StoredTensor {
  const SafetensorsFile* file;
  TensorInfo info;          // under its stored name, of its stored type
  const TensorInfo* whole;  // the tensor of the file that has its bytes, which lives as long as the file
  i64 begin = 0;            // its first byte among those of `whole`

  bool is_part() const { return info.name != whole->name; }
  i64 offset() const { return file->offset(whole->name) + begin; }  // from the start of the file
};

// Reads a part of a tensor past the file's map; `out` has exactly its bytes. And announces that this will be read.
void read_stored(const StoredTensor& tensor, const Slice& slice, std::span<std::byte> out);
void prefetch_stored(const StoredTensor& tensor, const Slice& slice);

// Tensors of mapped files under reference names. Scales are float32 to the reader however they are stored.
class FileCheckpoint : public Checkpoint {
 public:
  // `hf_names`: the files have Hugging Face's names, not the reference's.
  FileCheckpoint(std::filesystem::path directory, int shards, bool hf_names);

  std::string description() const override { return directory_.string(); }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override;
  void read(const TensorInfo& info, const Slice& slice, std::span<std::byte> out) const override;
  const std::byte* map(const TensorInfo& info) const override;
  void prefetch(const TensorInfo& info, const Slice& slice) const override;
  int shards() const override { return shards_; }
  std::string stored_name(const std::string& name) const override;
  std::vector<std::string> untranslated() const override { return untranslated_; }

  const std::vector<std::unique_ptr<SafetensorsFile>>& files() const { return files_; }
  // Every tensor of the files, fused ones divided, in the order of the files; of an indexed directory those that the
  // index names.
  const std::vector<StoredTensor>& stored() const { return stored_; }
  // What this reference name is in the files; nullptr when there is no such tensor.
  const StoredTensor* stored_of(std::string_view reference_name) const;

  // For the layouts: adds a file, then its tensors; a reference name may come once only. The reference stays valid.
  const SafetensorsFile& add_file(const std::filesystem::path& path);
  void add_tensor(const SafetensorsFile& file, const TensorInfo& stored, const std::string& reference_name) {
    add_tensor({&file, stored, &stored}, reference_name);
  }
  void add_tensor(const StoredTensor& stored, const std::string& reference_name);
  void add_untranslated(const SafetensorsFile& file, const std::string& stored_name);
  // A tensor of a file that the index does not name: nothing reads it, but it can be told.
  void add_unnamed(const std::string& stored_name);
  // Lets `name` mean the tensor `existing` if `name` is absent and `existing` is there.
  void alias(const std::string& name, const std::string& existing);

 private:
  std::filesystem::path directory_;
  int shards_;
  bool hf_names_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<TensorInfo> tensors_;
  std::vector<StoredTensor> places_;  // of each tensor
  std::vector<StoredTensor> stored_;
  std::unordered_map<std::string, std::size_t> index_;
  std::vector<std::string> untranslated_;
};

// A Hugging Face directory: the files that model.safetensors.index.json names, or all *.safetensors when there is none.
// Fused experts, which hold those of a layer in one tensor, are divided into the matrices of each. Throws Error naming
// those that cannot be divided, and when no tensor is of the family. Without `family` tensors are as stored, of any
// model.
std::unique_ptr<FileCheckpoint> open_hf_directory(const std::filesystem::path& directory, bool family = true);

// One rank's file of a directory written by the converter: model{rank}-mp{world_size}.safetensors.
std::unique_ptr<FileCheckpoint> open_sharded(const std::filesystem::path& directory, int rank, int world_size);

// How many ranks the converted directories of this folder are for, ascending: N of each model{rank}-mp{N}.safetensors.
std::vector<int> sharded_sizes(const std::filesystem::path& directory);

// The *.safetensors files of a directory by name, sorted.
std::vector<std::filesystem::path> safetensors_files(const std::filesystem::path& directory);

// Beside an unfinished conversion: what it is to become and what of it is finished.
inline constexpr std::string_view kUnfinishedFile = "manifest.json.partial";

inline constexpr std::string_view kIndexFile = "model.safetensors.index.json";

}  // namespace fathom
