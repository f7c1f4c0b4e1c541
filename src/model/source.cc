#include "model/source.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/model_folder.h"
#include "checkpoint/synthetic.h"
#include "model/manifest.h"
#include "model/paired_rope.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "synthetic:";

ModelSource open_synthetic(const SyntheticName& name, const std::string& text, const std::string& config_file) {
  ModelSource source;
  source.args = load_config(config_file.empty() ? name.config : fs::path(config_file));
  source.args.rope_interleave = true;  // made-up rows have no order
  source.checkpoint = make_synthetic(source.args, name.seed, text);
  if (fs::exists(name.config / "tokenizer.json")) source.directory = name.config;
  return source;
}

}  // namespace

void learn_from_weights(ModelArgs& args, const Checkpoint& checkpoint) {
  if (args.score_func == "sigmoid" && checkpoint.find(fmt::format("layers.{}.ffn.gate.bias", args.n_dense_layers)))
    args.gate_bias = true;
  // By what only they have: other layers beyond the configuration's are not the model's.
  const auto is_mtp = [&](i64 layer) {
    return std::ranges::any_of(std::array{"eh_proj", "enorm", "hnorm"}, [&](const char* module) {
      return checkpoint.find(fmt::format("layers.{}.{}.weight", layer, module)) != nullptr;
    });
  };
  args.n_mtp_layers = 0;
  while (args.n_mtp_layers < 64 && is_mtp(args.n_layers + args.n_mtp_layers)) ++args.n_mtp_layers;
}

std::optional<SyntheticName> parse_synthetic_name(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::string rest = name.substr(kPrefix.size());
  SyntheticName result;
  const std::size_t colon = rest.rfind(':');
  if (colon != std::string::npos) {
    const char* end = rest.data() + rest.size();
    const auto [stop, error] = std::from_chars(rest.data() + colon + 1, end, result.seed);
    if (error != std::errc{} || stop != end)
      throw UsageError(fmt::format("{}: the seed behind the last colon must be a number", name));
    rest.resize(colon);
  }
  if (rest.empty()) throw UsageError(fmt::format("{}: synthetic:CONFIG[:SEED] needs a configuration", name));
  result.config = rest;
  return result;
}

ModelArgs load_config(const fs::path& file_or_directory) {
  CHECK(fs::exists(file_or_directory), "configuration {} does not exist", file_or_directory.string());
  return fs::is_directory(file_or_directory) ? load_model_args_of(model_directory(file_or_directory))
                                             : load_model_args(file_or_directory);
}

void cut_layers(ModelArgs& args, i64 layers) {
  CHECK(layers <= args.n_layers, "{} layers are asked for; the configuration has {}", layers, args.n_layers);
  args.n_layers = layers;
  args.n_dense_layers = std::min(args.n_dense_layers, layers);
}

std::unique_ptr<Checkpoint> make_synthetic(const ModelArgs& args, std::uint64_t seed, const std::string& description) {
  std::vector<TensorInfo> tensors;
  for (ManifestEntry& entry : manifest(args, 0, 1, true)) tensors.push_back(std::move(entry.full));
  return std::make_unique<SyntheticCheckpoint>(description, std::move(tensors), seed, args.format().power_of_two(),
                                               args.tie_word_embeddings);
}

ModelSource open_model(const std::string& path_or_synthetic, const std::string& config_file, int rank, int world_size) {
  if (const auto synthetic = parse_synthetic_name(path_or_synthetic)) {
    ModelSource source = open_synthetic(*synthetic, path_or_synthetic, config_file);
    source.args.validate_world_size(world_size);
    return source;
  }
  const fs::path directory = model_directory(path_or_synthetic);
  ModelSource source;
  source.args = config_file.empty() ? load_model_args_of(directory) : load_config(config_file);
  source.args.validate_world_size(world_size);
  source.checkpoint = open_checkpoint(directory, rank, world_size);
  source.directory = directory;
  learn_from_weights(source.args, *source.checkpoint);
  if (!source.args.rope_interleave) {
    source.checkpoint = std::make_unique<PairedRopeCheckpoint>(std::move(source.checkpoint), source.args);
    source.args.rope_interleave = true;
  }
  return source;
}

}  // namespace fathom
