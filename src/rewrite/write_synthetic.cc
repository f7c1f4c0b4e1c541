#include "rewrite/write_synthetic.h"

#include <algorithm>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/thread_pool.h"
#include "checkpoint/file_checkpoint.h"
#include "checkpoint/stream.h"
#include "model/manifest.h"
#include "model/source.h"
#include "rewrite/folder_lock.h"
#include "rewrite/rewrite.h"
#include "text/tokenizer/byte_tokenizer.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

// Scales are made from all numbers of their blocks.
void add(OutputFile& output, const std::string& stored_name, const TensorInfo& source, const Slice& slice) {
  RewritePlan::add(output, stored_name, source, slice, source.name.ends_with(".scale"));
}

// Whole tensors under Hugging Face names, a new file whenever the next tensor would pass the limit.
std::vector<OutputFile> plan_hf(const ModelArgs& args, const Checkpoint& checkpoint, i64 max_shard_bytes) {
  std::vector<OutputFile> outputs(1);
  for (const TensorInfo& info : checkpoint.tensors()) {
    if (args.tie_word_embeddings && info.name == "head.weight") continue;
    if (!outputs.back().items.empty() && outputs.back().bytes + info.bytes() > max_shard_bytes) outputs.emplace_back();
    const auto name = hf_name(info.name);
    CHECK(name.has_value(), "{} has no Hugging Face name", info.name);
    add(outputs.back(), *name, info, {});
  }
  for (std::size_t i = 0; i < outputs.size(); ++i)
    outputs[i].name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, outputs.size());
  return outputs;
}

std::vector<OutputFile> plan_sharded(const ModelArgs& args, const Checkpoint& checkpoint, int ranks) {
  std::vector<OutputFile> outputs;
  for (int rank = 0; rank < ranks; ++rank) {
    OutputFile& output = outputs.emplace_back();
    output.name = fmt::format("model{}-mp{}.safetensors", rank, ranks);
    for (const ManifestEntry& entry : manifest(args, rank, ranks, true))
      add(output, entry.full.name, *checkpoint.find(entry.full.name), entry.slice);
  }
  return outputs;
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
  const auto old = safetensors_files(out);
  CHECK(old.empty() && !fs::exists(out / kIndexFile), "{} already holds a checkpoint ({}); name an empty folder",
        out.string(), old.empty() ? std::string(kIndexFile) : old.front().filename().string());
}

ModelArgs arguments(const SynthesisOptions& options) {
  ModelArgs args = load_config(options.config);
  args.rope_interleave = true;  // made-up rows have no order
  if (options.layers > 0) cut_layers(args, options.layers);
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
  const std::vector<OutputFile> outputs = options.sharded ? plan_sharded(args, *checkpoint, options.model_parallel)
                                                          : plan_hf(args, *checkpoint, options.max_shard_bytes);
  const FolderLock lock(options.out);
  check_folder(options.out);
  SynthesisReport report{.warnings = args.warnings};
  i64 total = 0, done = 0;
  for (const OutputFile& output : outputs) total += output.bytes;
  ThreadPool pool(options.threads);
  for (const OutputFile& output : outputs) {
    const auto hear = [&](i64 bytes) {
      done += bytes;
      if (progress) progress(done, total);
    };
    stream_tensors(*checkpoint, output.items, options.out / output.name, pool, {.progress = hear});
    report.tensors += static_cast<i64>(output.items.size());
    ++report.files;
  }
  report.bytes = total;
  report.tokenizer = write_tokenizer(args, options.out);
  if (options.sharded) {
    write_file(options.out / "args.json", to_json(args).dump(2) + "\n");
  } else {
    write_file(options.out / kIndexFile, index_of(outputs));
    write_file(options.out / "config.json", to_hf_config(args).dump(2) + "\n");
  }
  return report;
}

}  // namespace fathom
