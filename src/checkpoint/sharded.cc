// Directories of the converter: one file a rank, tensors already cut and under reference names.
#include <algorithm>
#include <charconv>

#include "checkpoint/file_checkpoint.h"
#include "checkpoint/json_text.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

// Takes a decimal number off the front of `text`; -1 when there is none.
int take_int(std::string_view& text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value < 0) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

// N of "model{rank}-mp{N}.safetensors"; 0 for other names.
int ranks_of(std::string_view file) {
  const auto take = [&](std::string_view prefix) {
    const bool there = file.starts_with(prefix);
    if (there) file.remove_prefix(prefix.size());
    return there;
  };
  if (!take("model") || take_int(file) < 0 || !take("-mp")) return 0;
  const int ranks = take_int(file);
  return file == ".safetensors" ? std::max(ranks, 0) : 0;
}

std::string others(const fs::path& directory, int world_size) {
  std::string text;
  for (const int n : sharded_sizes(directory))
    if (n != world_size) text += fmt::format("{}{}", text.empty() ? "" : ", ", n);
  return text.empty() ? "" : fmt::format("; the folder holds a conversion for world size {}", text);
}

}  // namespace

std::vector<int> sharded_sizes(const fs::path& directory) {
  std::vector<int> sizes;
  for (const fs::path& path : safetensors_files(directory))
    if (const int ranks = ranks_of(path.filename().string()); ranks > 0) sizes.push_back(ranks);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

std::unique_ptr<FileCheckpoint> open_sharded(const fs::path& directory, int rank, int world_size) {
  const fs::path path = directory / fmt::format("model{}-mp{}.safetensors", rank, world_size);
  CHECK(fs::exists(path), "{} is missing (rank {} of world size {}){}", path.string(), rank, world_size,
        others(directory, world_size));
  auto checkpoint = std::make_unique<FileCheckpoint>(directory, world_size, false);
  const SafetensorsFile& file = checkpoint->add_file(path);
  for (const TensorInfo& stored : file.tensors()) {
    if (hf_name(stored.name))
      checkpoint->add_tensor(file, stored, stored.name);
    else
      checkpoint->add_untranslated(file, stored.name);
  }
  CHECK(!checkpoint->tensors().empty(), "{} holds no tensor of a converted model{}", path.string(),
        checkpoint->untranslated().empty() ? "" : "; the first is " + checkpoint->untranslated().front());
  return checkpoint;
}

}  // namespace fathom
