#include "support/golden.h"

#include <cstring>

#include "base/file.h"
#include "checkpoint/synthetic.h"
#include "model/manifest.h"

namespace fathom::test {

std::vector<std::vector<float>> rows_of(const SafetensorsFile& file, const std::string& name) {
  const TensorInfo* info = file.find(name);
  CHECK(info != nullptr && info->dtype == DType::f32 && info->shape.rank() == 2, "no golden matrix {}", name);
  std::vector<std::vector<float>> rows(static_cast<std::size_t>(info->shape[0]),
                                       std::vector<float>(static_cast<std::size_t>(info->shape[1])));
  const std::byte* bytes = file.bytes(name).data();
  for (auto& row : rows) {
    std::memcpy(row.data(), bytes, row.size() * sizeof(float));
    bytes += row.size() * sizeof(float);
  }
  return rows;
}

Golden::Golden(const std::string& name)
    : json(nlohmann::json::parse(read_file(data_folder() / "golden/golden" / (name + ".json")))),
      values(data_folder() / "golden/golden" / (name + ".safetensors")),
      args(parse_model_args(json["config"].dump(), name)) {
  args.max_seq_len = 8192;
  std::vector<TensorInfo> tensors;
  for (const ManifestEntry& entry : manifest(args)) tensors.push_back(entry.full);
  weights = std::make_unique<SyntheticCheckpoint>(name, tensors, 7, args.format().power_of_two());
}

std::vector<int> Golden::ids(const std::string& prompt) const {
  return json["prompts"][prompt].get<std::vector<int>>();
}

std::vector<int> Golden::forced(const std::string& prompt) const {
  std::vector<int> all = json["forced"].get<std::vector<int>>();
  if (prompt == "p5000") all.resize(2);
  return all;
}

const std::vector<std::string>& golden_names() {
  static const std::vector<std::string> kNames = {"v2lite-bf16", "v2lite-short", "v2-bf16", "v3-fp8", "v31-fp8-ue8m0"};
  return kNames;
}

}  // namespace fathom::test
