#include "checkpoint/checkpoint.h"

#include "base/model_folder.h"
#include "checkpoint/file_checkpoint.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

// What a person probably has instead of safetensors files; empty when nothing is known.
std::string hint(const fs::path& directory) {
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".gguf") || name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth"))
      return fmt::format("; {} is not in a supported format", name);
    if (name.ends_with(".partial") || name.find(".partial-") != std::string::npos || name.ends_with(".incomplete"))
      return fmt::format("; {} looks like an unfinished download or conversion", name);
  }
  return "";
}

}  // namespace

const Format* Checkpoint::format(const std::string& matrix, const Format& configured) const {
  const TensorInfo* data = find(matrix + ".weight");
  return data == nullptr ? nullptr : find_format(data->dtype, find(matrix + ".scale") != nullptr, configured);
}

std::unique_ptr<Checkpoint> open_checkpoint(const fs::path& named, int rank, int world_size) {
  const fs::path path = model_directory(named);
  CHECK(world_size >= 1 && rank >= 0 && rank < world_size, "rank {} of world size {}", rank, world_size);
  check_model_files(path);
  CHECK(!fs::exists(path / kUnfinishedFile),
        "{} holds an unfinished conversion ({}); run the same command again to finish it", path.string(),
        kUnfinishedFile);
  if (fs::exists(path / kIndexFile)) return open_hf_directory(path);
  if (!sharded_sizes(path).empty()) return open_sharded(path, rank, world_size);
  if (!safetensors_files(path).empty()) return open_hf_directory(path);
  fail(
      "{} is no checkpoint: it has neither {} nor *.safetensors (Hugging Face) nor model{}-mp{}.safetensors "
      "(converted){}",
      path.string(), kIndexFile, rank, world_size, hint(path));
}

}  // namespace fathom
