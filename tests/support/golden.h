// Golden values of the reference and of transformers: <data>/golden/golden (see its README at their source).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "checkpoint/safetensors.h"
#include "checkpoint/synthetic.h"
#include "model/args.h"
#include "support/data.h"

namespace fathom::test {

// A float32 tensor of a safetensors file as rows.
std::vector<std::vector<float>> rows_of(const SafetensorsFile& file, const std::string& name);

// One golden checkpoint: its configuration, its weights (made by the formula, seed 7) and the expected values.
struct Golden {
  explicit Golden(const std::string& name);

  std::vector<int> ids(const std::string& prompt) const;
  // The tokens fed one by one after the prompt: 8, for the long prompt 2.
  std::vector<int> forced(const std::string& prompt) const;
  std::vector<std::vector<float>> rows(const std::string& key) const { return rows_of(values, key); }

  nlohmann::json json;
  SafetensorsFile values;
  ModelArgs args;
  std::unique_ptr<Checkpoint> weights;
};

const std::vector<std::string>& golden_names();

}  // namespace fathom::test
