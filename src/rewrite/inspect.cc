#include "rewrite/inspect.h"

#include <algorithm>
#include <filesystem>

#include "base/model_folder.h"
#include "checkpoint/file_checkpoint.h"
#include "model/manifest.h"
#include "model/source.h"
#include "model/verdict.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

constexpr i64 kCacheElementBytes = 2;  // bf16

// Bytes of one rank; a tied head is the embedding's memory.
i64 rank_bytes(const ModelArgs& args, const std::vector<ManifestEntry>& entries) {
  i64 bytes = 0;
  for (const ManifestEntry& entry : entries)
    if (!(args.tie_word_embeddings && entry.full.name == "head.weight"))
      bytes += entry.shape().numel() * size_of(entry.full.dtype);
  return bytes;
}

void count(InspectReport& report, const Checkpoint* stored) {
  const ModelArgs& args = report.args;
  for (const ManifestEntry& entry : manifest(args, 0, 1, true, stored)) {
    if (args.tie_word_embeddings && entry.full.name == "head.weight") continue;
    report.group_parameters[entry.group] += entry.parameters;
    report.group_bytes[entry.group] += entry.full.bytes();
    report.type_bytes[std::string(name_of(entry.full.dtype))] += entry.full.bytes();
    report.bytes += entry.full.bytes();
  }
  for (const auto& [group, numbers] : report.group_parameters) {
    if (group == "mtp")
      report.mtp_parameters += numbers;
    else
      report.parameters += numbers;
    if (group == "routed")
      report.activated += numbers / args.n_routed_experts * args.n_activated_experts;
    else if (group != "mtp" && group != "embedding" && group != "norm")
      report.activated += numbers;
  }
  if (args.tie_word_embeddings) report.activated += args.vocab_size * args.dim;
}

void measure_memory(InspectReport& report, const InspectOptions& options, const Checkpoint* stored) {
  const ModelArgs& args = report.args;
  report.tp = options.tp > 0 ? options.tp : report.shards;
  CHECK(report.shards == 1 || report.tp == report.shards, "{} is divided among {} ranks; --tp {} does not apply to it",
        report.source, report.shards, report.tp);
  report.max_batch_size = options.max_batch_size > 0 ? options.max_batch_size : args.max_batch_size;
  report.max_seq_len = options.max_seq_len > 0 ? options.max_seq_len : args.max_seq_len;
  report.cache_bytes_per_token = args.n_layers * (args.kv_lora_rank + args.qk_rope_head_dim) * kCacheElementBytes;
  try {
    args.validate_world_size(report.tp);
  } catch (const Error& error) {
    report.tp_obstacle = error.what();
    return;
  }
  for (const int rank : {0, report.tp - 1})
    report.rank_weight_bytes =
        std::max(report.rank_weight_bytes, rank_bytes(args, manifest(args, rank, report.tp, false, stored)));
  report.rank_cache_bytes = report.cache_bytes_per_token * report.max_batch_size * report.max_seq_len;
}

void append(std::vector<std::string>& to, const std::string& place, const std::vector<std::string>& from) {
  for (const std::string& text : from) to.push_back(place + text);
}

// Compares one opened checkpoint with what the configuration asks of it.
void compare(InspectReport& report, const FileCheckpoint& checkpoint, int rank) {
  const std::string place =
      report.shards > 1 ? checkpoint.files().front()->path().filename().string() + ": " : std::string();
  const Verdict verdict = judge(report.args, checkpoint, true, rank);
  append(report.missing, place, verdict.missing);
  append(report.mismatched, place, verdict.mismatched);
  append(report.stray_tensors, place, verdict.strays);
  append(report.derived_tensors, place, verdict.derived);
  for (const auto& file : checkpoint.files())
    report.files.push_back(
        {file->path().filename().string(), file->file_bytes(), static_cast<i64>(file->tensors().size())});
}

void list_stray_files(InspectReport& report, const fs::path& directory) {
  for (const fs::path& path : safetensors_files(directory)) {
    const std::string name = path.filename().string();
    const bool used = std::any_of(report.files.begin(), report.files.end(),
                                  [&](const InspectFile& file) { return file.name == name; });
    if (!used) report.stray_files.push_back(name);
  }
}

int shards_of(const fs::path& directory) {
  if (fs::exists(directory / kIndexFile) || !fs::is_directory(directory)) return 0;
  const auto sizes = sharded_sizes(directory);
  return sizes.empty() ? 0 : sizes.back();
}

// Gives the checkpoint (of a converted one the first rank's file), which tells the formats; null for a formula.
std::unique_ptr<Checkpoint> inspect_weights(InspectReport& report, const InspectOptions& options) {
  const bool synthetic = parse_synthetic_name(options.model).has_value();
  const fs::path directory = synthetic ? fs::path() : model_directory(options.model);
  const int shards = synthetic ? 0 : shards_of(directory);
  const int world_size = std::max(1, shards);
  report.args = open_model(options.model, options.config, 0, world_size).args;
  if (synthetic) return nullptr;
  report.has_weights = true;
  report.shards = world_size;
  std::unique_ptr<Checkpoint> first;
  for (int rank = 0; rank < world_size; ++rank) {
    auto checkpoint = shards > 0 ? open_sharded(directory, rank, shards) : open_hf_directory(directory);
    compare(report, *checkpoint, rank);
    if (rank == 0) first = std::move(checkpoint);
  }
  list_stray_files(report, directory);
  return first;
}

}  // namespace

InspectReport inspect(const InspectOptions& options) {
  InspectReport report;
  report.source = options.model.empty() ? options.config : options.model;
  std::unique_ptr<Checkpoint> stored;
  if (options.model.empty())
    report.args = load_config(options.config);
  else
    stored = inspect_weights(report, options);
  count(report, stored.get());
  measure_memory(report, options, stored.get());
  return report;
}

void require_complete(const InspectReport& report) {
  require_sound({report.missing, report.mismatched, report.stray_tensors, {}}, report.source, false);
}

}  // namespace fathom
