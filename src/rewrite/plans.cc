#include "rewrite/plans.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "base/model_folder.h"
#include "checkpoint/json_text.h"
#include "model/manifest.h"
#include "model/paired_rope.h"
#include "model/source.h"
#include "model/verdict.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kConfigFile = "config.json";
constexpr i64 kMaxConfigBytes = 16 << 20;

std::string plural(i64 n, std::string_view what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

RewritePlan start(const char* kind, const Source& source, const fs::path& from, const fs::path& to) {
  RewritePlan plan;
  plan.kind = kind;
  plan.source = from;
  plan.target = to;
  plan.warnings = source.args.warnings;
  for (const auto& file : source.files->files()) plan.source_files.push_back(file->path().filename().string());
  return plan;
}

// Regular files of the folder for which `wanted(name)`, sorted.
template <typename Wanted>
std::vector<std::string> files_of(const fs::path& folder, Wanted&& wanted) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && wanted(name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// What stands beside the weights and goes along unchanged.
bool is_companion(const std::string& name) {
  constexpr std::array kOthers = {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".incomplete", ".lock"};
  const bool other = std::any_of(kOthers.begin(), kOthers.end(), [&](const char* end) { return name.ends_with(end); });
  return !other && !name.starts_with('.') && name.find(".partial") == std::string::npos && name != kIndexFile &&
         name != kManifestFile && name != kConfigFile;
}

// What is not rewritten, told.
void note_left_out(RewritePlan& plan, const ModelArgs& args, const Verdict& verdict, bool mtp) {
  if (!mtp && args.n_mtp_layers > 0)
    plan.notes.push_back(fmt::format("{} not converted, as in the reference (--mtp keeps {})", mtp_layers_text(args),
                                     args.n_mtp_layers == 1 ? "it" : "them"));
  if (!verdict.strays.empty())
    plan.notes.push_back(fmt::format("left out: {} that the model does not have, first {}",
                                     plural(static_cast<i64>(verdict.strays.size()), "tensor"),
                                     verdict.strays.front()));
}

Json read_config(const fs::path& from) {
  const fs::path path = from / kConfigFile;
  CHECK(fs::exists(path), "{} does not exist", path.string());
  const std::string text = read_model_file(path, kMaxConfigBytes);
  parse_json(text, path.string());  // with its checks; the other form keeps the order
  Json config = Json::parse(text);
  CHECK(config.is_object(), "{} holds no JSON object", path.string());
  return config;
}

// Carries the plan out with the rows of rotated parts in the order of pairs, which `config` then says, if the source
// has them in halves. `view`: what the plan reads.
void pair_rope(OwnedPlan& owned, std::unique_ptr<Checkpoint> view, Json& config) {
  ModelArgs& args = owned.source.args;
  if (!args.rope_interleave) {
    view = view ? std::make_unique<PairedRopeCheckpoint>(std::move(view), args)
                : std::make_unique<PairedRopeCheckpoint>(*owned.source.stored, args);
    args.rope_interleave = true;
    config["rope_interleave"] = true;
  }
  owned.plan.checkpoint = view ? view.get() : owned.source.stored.get();
  owned.view = std::move(view);
}

// One output for each file of the source, in order.
std::vector<OutputFile> outputs_like(const Source& source) {
  std::vector<OutputFile> outputs;
  for (const auto& file : source.files->files()) outputs.push_back({file->path().filename().string(), {}, 0});
  return outputs;
}

OutputFile& output_named(std::vector<OutputFile>& outputs, const std::string& name) {
  return *std::find_if(outputs.begin(), outputs.end(), [&](const OutputFile& output) { return output.name == name; });
}

void finish_hf(RewritePlan& plan, std::vector<OutputFile> outputs, const Json& config) {
  std::erase_if(outputs, [](const OutputFile& output) { return output.items.empty(); });
  plan.outputs = std::move(outputs);
  plan.texts[std::string(kIndexFile)] = index_of(plan.outputs);
  plan.texts[std::string(kConfigFile)] = config.dump(2) + "\n";
  plan.copies = files_of(plan.source, is_companion);
}

}  // namespace

Source open_source(const fs::path& directory, bool divide_experts) {
  Source source;
  source.args = load_model_args_of(directory);
  open_checkpoint(directory, 0, std::max(1, sharded_sizes(directory).empty() ? 1 : sharded_sizes(directory).front()));
  CHECK(fs::exists(directory / kIndexFile) || sharded_sizes(directory).empty(),
        "{} is converted already; a Hugging Face directory is needed", directory.string());
  source.files = open_hf_directory(directory, divide_experts);
  source.stored = std::make_unique<StoredCheckpoint>(*source.files);
  learn_from_weights(source.args, *source.files);
  return source;
}

OwnedPlan plan_convert(const fs::path& named, const fs::path& to, i64 n_experts, int ranks, bool mtp,
                       bool ignore_unused) {
  const fs::path from = model_directory(named);
  OwnedPlan owned{open_source(from), nullptr, {}};
  ModelArgs& args = owned.source.args;
  CHECK(n_experts == 0 || n_experts == args.n_routed_experts, "--n-experts {}: {} has {} routed experts", n_experts,
        from.string(), args.n_routed_experts);
  args.validate_world_size(ranks);
  const Verdict verdict = judge(args, *owned.source.files, mtp);
  require_sound(verdict, from.string(), ignore_unused);
  RewritePlan& plan = owned.plan = start("convert", owned.source, from, to);
  plan.options = {{"model_parallel", std::to_string(ranks)}, {"mtp", mtp ? "true" : "false"}};
  for (int rank = 0; rank < ranks; ++rank) {
    OutputFile& file = plan.outputs.emplace_back();
    file.name = fmt::format("model{}-mp{}.safetensors", rank, ranks);
    for (const ManifestEntry& entry : manifest(args, rank, ranks, mtp, owned.source.files.get()))
      plan.add(file, entry.full.name, *owned.source.stored->of_reference(entry.full.name), entry.slice);
  }
  note_left_out(plan, args, verdict, mtp);
  plan.copies = files_of(from, [](const std::string& name) {
    return (name.find("token") != std::string::npos && is_companion(name)) || name == "generation_config.json" ||
           name == "chat_template.jinja" || name == kConfigFile;
  });
  if (!mtp) args.n_mtp_layers = 0;
  const bool edited = !args.rope_interleave && fs::exists(from / kConfigFile);
  Json config = edited ? read_config(from) : Json::object();
  pair_rope(owned, nullptr, config);
  if (edited) {
    plan.texts[std::string(kConfigFile)] = config.dump(2) + "\n";
    std::erase(plan.copies, kConfigFile);
  }
  plan.texts["args.json"] = to_json(args).dump(2) + "\n";
  return owned;
}

OwnedPlan plan_cast(const fs::path& named, const fs::path& to, bool allow_missing_scale) {
  const fs::path from = model_directory(named);
  OwnedPlan owned{open_source(from, false), nullptr, {}};  // what is no FP8 matrix stays as it is
  Json config = read_config(from);
  auto view = std::make_unique<CastCheckpoint>(*owned.source.stored, allow_missing_scale);
  RewritePlan& plan = owned.plan = start("fp8-cast-bf16", owned.source, from, to);
  plan.options = {{"allow_missing_scale", allow_missing_scale ? "true" : "false"}};
  plan.checkpoint = view.get();
  std::vector<OutputFile> outputs = outputs_like(owned.source);
  for (const TensorInfo& info : view->tensors())
    plan.add(output_named(outputs, owned.source.stored->file_of(*owned.source.stored->find(info.name))), info.name,
             info, {});
  for (const std::string& name : view->unscaled())
    plan.notes.push_back(fmt::format("Warning: Missing scale_inv tensor for {}, skipping conversion", shown(name)));
  if (view->unscaled().empty()) config.erase("quantization_config");
  finish_hf(plan, std::move(outputs), config);
  owned.view = std::move(view);
  return owned;
}

OwnedPlan plan_quantize(const fs::path& named, const fs::path& to, bool power_of_two_scales, bool ignore_unused) {
  const fs::path from = model_directory(named);
  OwnedPlan owned{open_source(from), nullptr, {}};
  const Source& source = owned.source;
  Json config = read_config(from);
  CHECK(!config.contains("quantization_config") || config["quantization_config"].is_null(),
        "{} is quantised already (quantization_config)", from.string());
  ModelArgs args = source.args;
  require_sound(judge(args, *source.files, true), from.string(), ignore_unused);
  args.dtype = "fp8";
  args.scale_fmt = power_of_two_scales ? "ue8m0" : "";
  std::unordered_set<std::string> matrices;
  for (const ManifestEntry& entry : manifest(args, 0, 1, true))
    if (entry.format != nullptr && entry.format->has_scale())
      matrices.insert(source.stored->of_reference(entry.full.name)->name);
  auto view = std::make_unique<QuantizedCheckpoint>(*source.stored, matrices, power_of_two_scales);
  RewritePlan& plan = owned.plan = start("quantize", source, from, to);
  plan.options = {{"format", power_of_two_scales ? "fp8-ue8m0" : "fp8"}};
  std::vector<OutputFile> outputs = outputs_like(source);
  for (const TensorInfo& info : view->tensors()) {
    const TensorInfo* matrix = view->matrix_of_scale(info);
    const TensorInfo& stored = matrix != nullptr ? *matrix : *source.stored->find(info.name);
    plan.add(output_named(outputs, source.stored->file_of(stored)), info.name, info, {}, matrix != nullptr);
  }
  config["quantization_config"] = to_hf_config(args)["quantization_config"];
  pair_rope(owned, std::move(view), config);
  finish_hf(plan, std::move(outputs), config);
  return owned;
}

}  // namespace fathom
