// Rewriting a checkpoint into another folder: planned first, written file by file, continued where it was broken off.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/stream.h"

namespace fathom {

// One safetensors file to write.
struct OutputFile {
  std::string name;
  std::vector<StreamItem> items;
  i64 bytes = 0;  // of its tensors
};

// The text of model.safetensors.index.json for these files.
std::string index_of(const std::vector<OutputFile>& outputs);

// All that is to be written.
struct RewritePlan {
  std::string kind;                            // "convert", "fp8-cast-bf16", "quantize"
  std::map<std::string, std::string> options;  // what else decides the result, as text
  std::filesystem::path source, target;
  const Checkpoint* checkpoint = nullptr;  // where the items' tensors come from
  std::vector<std::string> source_files;   // names of the files that are read: they tell whether the source changed
  std::vector<OutputFile> outputs;
  std::vector<std::string> copies;           // names of files copied from the source
  std::map<std::string, std::string> texts;  // name -> content of small files
  std::vector<std::string> warnings;         // of the source's configuration
  std::vector<std::string> notes;            // lines for the person: what is left out, what is odd

  static void add(OutputFile& file, const std::string& stored_name, const TensorInfo& source, const Slice& slice,
                  bool costly = false);
  i64 bytes() const;
};

struct RewriteOptions {
  bool restart = false;  // begin again although a part is finished
  bool force = false;    // replace another conversion in the target
  int threads = 0;       // 0: one a physical core
};

struct RewriteReport {
  i64 bytes = 0, tensors = 0;
  int files = 0, kept = 0;  // files in all; of these finished by an earlier run
  i64 kept_bytes = 0;       // of the file at which an earlier run was interrupted
  bool complete_before = false;
};

// Does what the plan says. The target holds manifest.json.partial until it is complete, then manifest.json: sizes and
// SHA-256 of each file and tensor. Throws Error when the target holds something else or has too little room.
RewriteReport rewrite(const RewritePlan& plan, const RewriteOptions& options,
                      const std::function<void(i64 done, i64 total)>& progress = {});

// Names the target's present content when rewrite() would refuse it, and refuses.
void check_target(const RewritePlan& plan, const RewriteOptions& options);

// Bytes a second of writing 64 MiB (fewer when the plan is smaller) to the disk of the target; no file is left.
double measure_disk(const RewritePlan& plan);

inline constexpr std::string_view kManifestFile = "manifest.json";

}  // namespace fathom
