// Hugging Face directories.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "base/model_folder.h"
#include "checkpoint/file_checkpoint.h"
#include "checkpoint/fused_experts.h"
#include "checkpoint/json_text.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;

constexpr i64 kMaxIndexBytes = 256 << 20;
constexpr i64 kMaxConfigBytes = 16 << 20;

// Files of the index, each with the stored names of its tensors.
using WeightMap = std::map<std::string, std::set<std::string>>;

void check_file_name(const std::string& file, const std::string& tensor, const std::string& index) {
  const bool plain = file.find('/') == std::string::npos && file.find('\0') == std::string::npos;
  CHECK(plain && file.ends_with(".safetensors") && file.size() > std::string_view(".safetensors").size(),
        "{}: weight_map places {} in \"{}\"; a *.safetensors file of the same folder is expected", index, shown(tensor),
        shown(file));
}

WeightMap read_index(const fs::path& path) {
  const std::string name = path.string();
  const json index = parse_json(read_model_file(path, kMaxIndexBytes), name);
  CHECK(index.is_object() && index.contains("weight_map") && index["weight_map"].is_object(),
        "{} has no object \"weight_map\"", name);
  WeightMap map;
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    CHECK(file.is_string(), "{}: weight_map of {} must be a file name, not {}", name, shown(tensor), shown_json(file));
    check_file_name(file.get_ref<const std::string&>(), tensor, name);
    map[file.get<std::string>()].insert(tensor);
  }
  CHECK(!map.empty(), "{} names no files", name);
  return map;
}

void check_files_exist(const WeightMap& map, const fs::path& directory) {
  std::vector<std::string> missing;
  for (const auto& [file, tensors] : map)
    if (!fs::exists(directory / file)) missing.push_back(file);
  if (missing.empty()) return;
  const std::string more = missing.size() > 1 ? fmt::format(" (and {} more)", missing.size() - 1) : "";
  fail("{} is incomplete: {}{}, named by {}, is missing; finish the download", directory.string(),
       shown(missing.front()), more, kIndexFile);
}

void add(FileCheckpoint& checkpoint, const SafetensorsFile& file, const TensorInfo& stored, bool family) {
  if (const auto name = reference_name(stored.name))
    checkpoint.add_tensor(file, stored, *name);
  else if (!family || !add_fused_experts(checkpoint, file, stored))
    checkpoint.add_untranslated(file, stored.name);
}

void add_indexed(FileCheckpoint& checkpoint, const fs::path& directory, bool family) {
  const WeightMap map = read_index(directory / kIndexFile);
  check_files_exist(map, directory);
  for (const auto& [name, tensors] : map) {
    const SafetensorsFile& file = checkpoint.add_file(directory / name);
    for (const std::string& tensor : tensors)
      CHECK(file.find(tensor) != nullptr, "{} has no tensor {}, which {} places there", file.path().string(),
            shown(tensor), kIndexFile);
    for (const TensorInfo& stored : file.tensors())
      if (tensors.contains(stored.name))
        add(checkpoint, file, stored, family);
      else
        checkpoint.add_unnamed(stored.name);
  }
}

bool ties_embeddings(const fs::path& directory) {
  const fs::path path = directory / "config.json";
  if (!fs::exists(path)) return false;
  const json config = parse_json(read_model_file(path, kMaxConfigBytes), path.string());
  return config.is_object() && config.value("tie_word_embeddings", json(false)) == json(true);
}

// MTP layers that share embedding and head with the model may leave them out.
void alias_mtp_tensors(FileCheckpoint& checkpoint) {
  constexpr std::string_view kMark = ".eh_proj.weight";
  std::vector<std::string> layers;
  for (const TensorInfo& info : checkpoint.tensors())
    if (info.name.ends_with(kMark)) layers.push_back(info.name.substr(0, info.name.size() - kMark.size()));
  for (const std::string& layer : layers) {
    checkpoint.alias(layer + ".embed.weight", "embed.weight");
    checkpoint.alias(layer + ".shared_head.head.weight", "head.weight");
  }
}

// Tensors of other quantisation layouts, whose names tell them whatever the configuration says.
void check_layout(const FileCheckpoint& checkpoint) {
  constexpr std::array<std::pair<std::string_view, const char*>, 6> kLayouts = {
      std::pair{".qweight", "AWQ or GPTQ"},     {".qzeros", "AWQ or GPTQ"},  {".g_idx", "GPTQ"},
      {".weight_packed", "compressed-tensors"}, {".absmax", "bitsandbytes"}, {"__nf4", "bitsandbytes"}};
  for (const std::string& name : checkpoint.untranslated())
    for (const auto& layout : kLayouts)
      CHECK(!name.ends_with(layout.first),
            "{} is quantised as {} does it (tensor {}), which is not supported; get the model's FP8 or bf16 checkpoint",
            checkpoint.description(), layout.second, name);
}

}  // namespace

std::unique_ptr<FileCheckpoint> open_hf_directory(const fs::path& directory, bool family) {
  auto checkpoint = std::make_unique<FileCheckpoint>(directory, 1, true);
  if (fs::exists(directory / kIndexFile)) {
    add_indexed(*checkpoint, directory, family);
  } else {
    for (const fs::path& path : safetensors_files(directory)) {
      const SafetensorsFile& file = checkpoint->add_file(path);
      for (const TensorInfo& stored : file.tensors()) add(*checkpoint, file, stored, family);
    }
  }
  check_layout(*checkpoint);
  CHECK(!family || !checkpoint->tensors().empty(), "{} holds no tensor of a DeepSeek-V2 or V3 model{}",
        directory.string(),
        checkpoint->untranslated().empty() ? "" : "; the first is " + checkpoint->untranslated().front());
  if (ties_embeddings(directory)) checkpoint->alias("head.weight", "embed.weight");
  alias_mtp_tensors(*checkpoint);
  return checkpoint;
}

}  // namespace fathom
