#include "rewrite/write_synthetic.h"

#include <algorithm>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/thread_pool.h"
#include "checkpoint/file_checkpoint.h"
#include "checkpoint/slice.h"
#include "checkpoint/stream.h"
#include "model/manifest.h"
#include "model/source.h"
#include "text/tokenizer/byte_tokenizer.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// One file to write.
struct Plan {
  std::string file;
  std::vector<StreamItem> items;
  i64 bytes = 0;
};

void add_item(Plan& plan, StreamItem item) {
  item.costly = item.source->name.ends_with(".scale");
  plan.bytes += slice_shape(*item.source, item.slice).numel() * size_of(item.source->dtype);
  plan.items.push_back(std::move(item));
}

// Whole tensors under Hugging Face names, a new file whenever the next tensor would pass the limit.
std::vector<Plan> plan_hf(const ModelArgs& args, const Checkpoint& checkpoint, i64 max_shard_bytes) {
  std::vector<Plan> plans(1);
  for (const TensorInfo& info : checkpoint.tensors()) {
    if (args.tie_word_embeddings && info.name == "head.weight") continue;
    if (!plans.back().items.empty() && plans.back().bytes + info.bytes() > max_shard_bytes) plans.emplace_back();
    const auto name = hf_name(info.name);
    CHECK(name.has_value(), "{} has no Hugging Face name", info.name);
    add_item(plans.back(), {*name, &info, {}});
  }
  for (std::size_t i = 0; i < plans.size(); ++i)
    plans[i].file = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, plans.size());
  return plans;
}

std::vector<Plan> plan_sharded(const ModelArgs& args, const Checkpoint& checkpoint, int ranks) {
  std::vector<Plan> plans;
  for (int rank = 0; rank < ranks; ++rank) {
    Plan& plan = plans.emplace_back();
    plan.file = fmt::format("model{}-mp{}.safetensors", rank, ranks);
    for (const ManifestEntry& entry : manifest(args, rank, ranks, true))
      add_item(plan, {entry.full.name, checkpoint.find(entry.full.name), entry.slice});
  }
  return plans;
}

void write_index(const std::vector<Plan>& plans, const fs::path& out) {
  i64 total = 0;
  nlohmann::json map;  // sorted by name, as other programs write it
  for (const Plan& plan : plans) {
    total += plan.bytes;
    for (const StreamItem& item : plan.items) map[item.stored_name] = plan.file;
  }
  Json index;
  index["metadata"]["total_size"] = total;
  index["weight_map"] = map;
  write_file(out / kIndexFile, index.dump(2) + "\n");
}

bool write_tokenizer(const ModelArgs& args, const fs::path& out) {
  if (args.vocab_size < byte_tokenizer_size()) return false;
  const ByteTokenizerIds ids{.bos = static_cast<TokenId>(args.bos_token_id),
                             .eos = static_cast<TokenId>(args.eos_token_ids.front())};
  write_file(out / "tokenizer.json", byte_tokenizer_json(ids));
  write_file(out / "tokenizer_config.json", byte_tokenizer_config_json(args.max_seq_len));
  return true;
}

// What an earlier run left would be read together with what this one writes.
void check_folder(const fs::path& out) {
  fs::create_directories(out);
  const auto old = safetensors_files(out);
  CHECK(old.empty() && !fs::exists(out / kIndexFile), "{} already holds a checkpoint ({}); name an empty folder",
        out.string(), old.empty() ? std::string(kIndexFile) : old.front().filename().string());
}

ModelArgs arguments(const SynthesisOptions& options) {
  ModelArgs args = load_config(options.config);
  if (options.layers > 0) {
    args.n_layers = std::min(args.n_layers, options.layers);
    args.n_dense_layers = std::min(args.n_dense_layers, args.n_layers);
  }
  if (args.bos_token_id < 0) args.bos_token_id = 0;
  if (args.eos_token_ids.empty()) args.eos_token_ids = {1};
  args.validate();
  return args;
}

}  // namespace

SynthesisReport write_synthetic(const SynthesisOptions& options, const std::function<void(i64, i64)>& progress) {
  const ModelArgs args = arguments(options);
  if (options.sharded) args.validate_world_size(options.model_parallel);
  const auto checkpoint = make_synthetic(args, options.seed, "synthetic:" + options.config.string());
  const std::vector<Plan> plans = options.sharded ? plan_sharded(args, *checkpoint, options.model_parallel)
                                                  : plan_hf(args, *checkpoint, options.max_shard_bytes);
  check_folder(options.out);
  SynthesisReport report;
  i64 total = 0, done = 0;
  for (const Plan& plan : plans) total += plan.bytes;
  ThreadPool pool(options.threads);
  for (const Plan& plan : plans) {
    const auto hear = [&](i64 bytes) {
      done += bytes;
      if (progress) progress(done, total);
    };
    stream_tensors(*checkpoint, plan.items, options.out / plan.file, pool, {.progress = hear});
    report.tensors += static_cast<i64>(plan.items.size());
    ++report.files;
  }
  report.bytes = total;
  report.tokenizer = write_tokenizer(args, options.out);
  if (options.sharded) {
    write_file(options.out / "args.json", to_json(args).dump(2) + "\n");
  } else {
    write_index(plans, options.out);
    write_file(options.out / "config.json", to_hf_config(args).dump(2) + "\n");
  }
  return report;
}

}  // namespace fathom
