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

// The configuration to be written beside the weights, in Hugging Face's form; null when there is none. `args`: what it
// becomes where only the reference's form is there.
Json config_of(const PlanInput& input, const ModelArgs* args) {
  fs::path path = input.config.empty() ? input.from / kConfigFile : fs::path(input.config);
  if (fs::is_directory(path)) path /= kConfigFile;
  if (!fs::exists(path)) {
    CHECK(input.config.empty(), "configuration {} does not exist", path.string());
    return args != nullptr ? Json(to_hf_config(*args)) : Json();
  }
  const std::string text = read_model_file(path, kMaxConfigBytes);
  parse_json(text, path.string());  // with its checks; the other form keeps the order
  Json config = Json::parse(text);
  CHECK(config.is_object(), "{} holds no JSON object", path.string());
  const bool hf = config.contains("model_type") || config.contains("architectures");
  return hf || args == nullptr ? config : Json(to_hf_config(*args));
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
  if (!config.is_null()) plan.texts[std::string(kConfigFile)] = config.dump(2) + "\n";
  plan.copies = files_of(plan.source, is_companion);
}

// The input with the directory that it means.
PlanInput resolved(PlanInput input) {
  input.from = model_directory(input.from);
  const bool indexed = fs::exists(input.from / kIndexFile);
  if (fs::exists(input.from / kUnfinishedFile) || (!indexed && safetensors_files(input.from).empty()))
    open_checkpoint(input.from);  // says what is there instead
  check_model_files(input.from);
  CHECK(indexed || sharded_sizes(input.from).empty(), "{} is converted already; a Hugging Face directory is needed",
        input.from.string());
  return input;
}

// A model of the family.
Source open_source(const PlanInput& input) {
  Source source;
  source.args = input.config.empty() ? load_model_args_of(input.from) : load_config(input.config);
  source.files = open_hf_directory(input.from);
  source.stored = std::make_unique<StoredCheckpoint>(*source.files);
  learn_from_weights(source.args, *source.files);
  return source;
}

// Only FP8 in blocks of 128 x 128 becomes bf16 by multiplying.
void refuse_other_layouts(const fs::path& from, const Json& config) {
  if (!config.is_object() || !config.contains("quantization_config")) return;
  const Json& quantization = config["quantization_config"];
  if (!quantization.is_object()) return;
  const Json method = quantization.value("quant_method", Json("fp8"));
  const Json block = quantization.value("weight_block_size", Json({128, 128}));
  CHECK(method == "fp8" && block == Json({128, 128}),
        "{}: weights quantised as {} in blocks of {} cannot be cast, only fp8 in blocks of [128,128]; get the model's "
        "FP8 "
        "or bf16 checkpoint",
        from.string(), shown_json(method), shown_json(block));
}

}  // namespace

OwnedPlan plan_convert(const PlanInput& named, i64 n_experts, int ranks, bool mtp) {
  const PlanInput input = resolved(named);
  const fs::path& from = input.from;
  OwnedPlan owned{open_source(input), nullptr, {}};
  ModelArgs& args = owned.source.args;
  CHECK(n_experts == 0 || n_experts == args.n_routed_experts, "--n-experts {}: {} has {} routed experts", n_experts,
        from.string(), args.n_routed_experts);
  args.validate_world_size(ranks);
  const Verdict verdict = judge(args, *owned.source.files, mtp);
  require_sound(verdict, from.string(), input.ignore_unused);
  RewritePlan& plan = owned.plan = start("convert", owned.source, from, input.to);
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
  const bool edited = !input.config.empty() || (!args.rope_interleave && fs::exists(from / kConfigFile));
  Json config = edited ? config_of(input, &args) : Json::object();
  pair_rope(owned, nullptr, config);
  if (edited) {
    plan.texts[std::string(kConfigFile)] = config.dump(2) + "\n";
    std::erase(plan.copies, kConfigFile);
  }
  plan.texts["args.json"] = to_json(args).dump(2) + "\n";
  return owned;
}

OwnedPlan plan_cast(const PlanInput& named, bool allow_missing_scale) {
  const PlanInput input = resolved(named);
  OwnedPlan owned;
  owned.source.files = open_hf_directory(input.from, false);  // what is no FP8 matrix stays as it is
  owned.source.stored = std::make_unique<StoredCheckpoint>(*owned.source.files);
  CHECK(!owned.source.files->stored().empty(), "{} holds no tensors", input.from.string());
  Json config = config_of(input, nullptr);
  refuse_other_layouts(input.from, config);
  auto view = std::make_unique<CastCheckpoint>(*owned.source.stored, allow_missing_scale);
  RewritePlan& plan = owned.plan = start("fp8-cast-bf16", owned.source, input.from, input.to);
  plan.options = {{"allow_missing_scale", allow_missing_scale ? "true" : "false"}};
  plan.checkpoint = view.get();
  std::vector<OutputFile> outputs = outputs_like(owned.source);
  for (const TensorInfo& info : view->tensors())
    plan.add(output_named(outputs, owned.source.stored->file_of(*owned.source.stored->find(info.name))), info.name,
             info, {});
  for (const std::string& name : view->unscaled())
    plan.notes.push_back(fmt::format("Warning: Missing scale_inv tensor for {}, skipping conversion", shown(name)));
  if (view->unscaled().empty() && config.is_object()) config.erase("quantization_config");
  finish_hf(plan, std::move(outputs), config);
  owned.view = std::move(view);
  return owned;
}

OwnedPlan plan_quantize(const PlanInput& named, bool power_of_two_scales) {
  const PlanInput input = resolved(named);
  const fs::path& from = input.from;
  OwnedPlan owned{open_source(input), nullptr, {}};
  const Source& source = owned.source;
  Json config = config_of(input, &source.args);
  CHECK(!config.contains("quantization_config") || config["quantization_config"].is_null(),
        "{} is quantised already (quantization_config)", from.string());
  ModelArgs args = source.args;
  require_sound(judge(args, *source.files, true), from.string(), input.ignore_unused);
  args.dtype = "fp8";
  args.scale_fmt = power_of_two_scales ? "ue8m0" : "";
  std::unordered_set<std::string> matrices;
  for (const ManifestEntry& entry : manifest(args, 0, 1, true))
    if (entry.format != nullptr && entry.format->has_scale())
      matrices.insert(source.stored->of_reference(entry.full.name)->name);
  auto view = std::make_unique<QuantizedCheckpoint>(*source.stored, matrices, power_of_two_scales);
  RewritePlan& plan = owned.plan = start("quantize", source, from, input.to);
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
