// Golden values of the reference and of transformers: <data>/golden/golden (see its README at their source).
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/synthetic.h"
#include "model/manifest.h"

namespace fathom::test {

inline std::filesystem::path data_folder() {
  const char* folder = std::getenv("FATHOM_TEST_DATA");
  CHECK(folder != nullptr, "FATHOM_TEST_DATA is not set: run the tests with ctest");
  return folder;
}

inline std::filesystem::path source_folder() {
  const char* folder = std::getenv("FATHOM_SOURCE_DIR");
  CHECK(folder != nullptr, "FATHOM_SOURCE_DIR is not set: run the tests with ctest");
  return folder;
}

// A float32 tensor of a safetensors file as rows.
inline std::vector<std::vector<float>> rows_of(const SafetensorsFile& file, const std::string& name) {
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

// One golden checkpoint: its configuration, its weights (made by the formula, seed 7) and the expected values.
struct Golden {
  explicit Golden(const std::string& name)
      : json(nlohmann::json::parse(read_file(data_folder() / "golden/golden" / (name + ".json")))),
        values(data_folder() / "golden/golden" / (name + ".safetensors")),
        args(parse_model_args(json["config"].dump(), name)) {
    args.max_seq_len = 8192;
    std::vector<TensorInfo> tensors;
    for (const ManifestEntry& entry : manifest(args)) tensors.push_back(entry.full);
    weights = std::make_unique<SyntheticCheckpoint>(name, tensors, 7, args.format().power_of_two());
  }

  std::vector<int> ids(const std::string& prompt) const { return json["prompts"][prompt].get<std::vector<int>>(); }
  // The tokens fed one by one after the prompt: 8, for the long prompt 2.
  std::vector<int> forced(const std::string& prompt) const {
    std::vector<int> all = json["forced"].get<std::vector<int>>();
    if (prompt == "p5000") all.resize(2);
    return all;
  }
  std::vector<std::vector<float>> rows(const std::string& key) const { return rows_of(values, key); }

  nlohmann::json json;
  SafetensorsFile values;
  ModelArgs args;
  std::unique_ptr<Checkpoint> weights;
};

inline const std::vector<std::string>& golden_names() {
  static const std::vector<std::string> kNames = {"v2lite-bf16", "v2lite-short", "v2-bf16", "v3-fp8", "v31-fp8-ue8m0"};
  return kNames;
}

}  // namespace fathom::test
