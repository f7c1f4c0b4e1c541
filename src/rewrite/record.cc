#include "rewrite/record.h"

#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "checkpoint/json_text.h"
#include "checkpoint/slice.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr i64 kMaxManifestBytes = i64{1} << 30;

std::string sha256_of(std::string_view text) { return sha256_hex(std::as_bytes(std::span(text.data(), text.size()))); }

}  // namespace

// The source's files count by size and time of change, for reading them would take as long as the work itself.
std::string plan_key(const RewritePlan& plan) {
  std::string text = plan.kind + "\n";
  for (const auto& [name, value] : plan.options) text += fmt::format("{}={}\n", name, value);
  for (const std::string& name : plan.source_files) {
    struct stat info {};
    const fs::path path = plan.source / name;
    CHECK(::stat(path.c_str(), &info) == 0, "cannot inspect {}", path.string());
    text += fmt::format("{} {} {}.{}\n", name, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  }
  for (const OutputFile& output : plan.outputs) {
    text += output.name + "\n";
    for (const StreamItem& item : output.items)
      text += fmt::format("{} {} {} {} {} {}\n", item.stored_name, item.source->name, name_of(item.source->dtype),
                          item.slice.dim, item.slice.start, item.slice.length);
  }
  for (const auto& [name, content] : plan.texts) text += fmt::format("{}\n{}\n", name, content);
  return sha256_of(text);
}

Json read_record(const fs::path& path) {
  if (!fs::exists(path)) return nullptr;
  const nlohmann::json state = parse_json(read_file(path, kMaxManifestBytes), path.string());
  CHECK(state.is_object() && state.contains("plan") && state["plan"].is_string() && state.contains("files") &&
            state["files"].is_object(),
        "{} is no manifest of a conversion", path.string());
  return Json::parse(state.dump());
}

// Keys stand in alphabetical order, as a record that is read back has them: an interrupted run must not show.
Json record_of(const FileDigest& digest) {
  std::map<std::string, Json> tensors;
  for (std::size_t i = 0; i < digest.tensors.size(); ++i) {
    const TensorInfo& info = digest.tensors[i];
    Json tensor;
    tensor["dtype"] = safetensors_name(info.dtype);
    tensor["sha256"] = digest.tensor_sha256[i];
    tensor["shape"] = Json::array();
    for (int d = 0; d < info.shape.rank(); ++d) tensor["shape"].push_back(info.shape[d]);
    tensors[info.name] = std::move(tensor);
  }
  return {{"bytes", digest.bytes}, {"sha256", digest.sha256}, {"tensors", tensors}};
}

Json record_of(std::string_view text) {
  return {{"bytes", static_cast<i64>(text.size())}, {"sha256", sha256_of(text)}};
}

}  // namespace fathom
