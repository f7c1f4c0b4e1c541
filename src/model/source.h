// Where a model comes from: a directory of weights, or a formula ("synthetic:CONFIG[:SEED]").
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "model/args.h"

namespace fathom {

struct ModelSource {
  ModelArgs args;
  std::unique_ptr<Checkpoint> checkpoint;
  std::filesystem::path directory;  // with the tokenizer; empty for a synthetic model of a lone file
};

// Opens what the user named. `config_file` (may be empty) replaces the directory's own configuration. Facts that only
// the weights tell (gate bias, MTP layers) are taken from them. Throws Error when something is missing.
ModelSource open_model(const std::string& path_or_synthetic, const std::string& config_file = {}, int rank = 0,
                       int world_size = 1);

// Sets what the configuration may leave open and the weights show: gate bias, number of MTP layers.
void learn_from_weights(ModelArgs& args, const Checkpoint& checkpoint);

// "synthetic:CONFIG[:SEED]"; CONFIG is a configuration file or a model directory. Nothing for other texts.
struct SyntheticName {
  std::filesystem::path config;
  std::uint64_t seed = 0;
};
std::optional<SyntheticName> parse_synthetic_name(const std::string& name);

// The configuration file or model directory of this path as arguments.
ModelArgs load_config(const std::filesystem::path& file_or_directory);

// Leaves the first `layers` layers of the model. Throws Error when it has fewer.
void cut_layers(ModelArgs& args, i64 layers);

// All tensors of a model with synthetic values, MTP layers included.
std::unique_ptr<Checkpoint> make_synthetic(const ModelArgs& args, std::uint64_t seed, const std::string& description);

}  // namespace fathom
