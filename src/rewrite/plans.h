// The plans of the commands that rewrite checkpoints: which tensors of a Hugging Face directory go where.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "checkpoint/stored.h"
#include "model/args.h"
#include "rewrite/rewrite.h"

namespace fathom {

// An opened Hugging Face directory.
struct Source {
  std::unique_ptr<FileCheckpoint> files;
  std::unique_ptr<StoredCheckpoint> stored;
  ModelArgs args;
};

// A plan and what its items point into.
struct OwnedPlan {
  Source source;
  std::unique_ptr<Checkpoint> view;  // cast or quantised; may be null
  RewritePlan plan;
};

// Throws Error when it is no Hugging Face directory (a converted one is named as such). `divide_experts`:
// see open_hf_directory().
Source open_source(const std::filesystem::path& directory, bool divide_experts = true);

// For each rank the file that the reference's converter writes. Refuses sizes that do not divide the model before any
// tensor is read. `n_experts`: 0, or what the caller believes the model has. `ignore_unused`: see
// require_sound().
OwnedPlan plan_convert(const std::filesystem::path& from, const std::filesystem::path& to, i64 n_experts, int ranks,
                       bool mtp, bool ignore_unused);

// The same files with FP8 matrices as bf16.
OwnedPlan plan_cast(const std::filesystem::path& from, const std::filesystem::path& to, bool allow_missing_scale);

// The same files with the matrices that the family keeps in FP8 quantised.
OwnedPlan plan_quantize(const std::filesystem::path& from, const std::filesystem::path& to, bool power_of_two_scales,
                        bool ignore_unused);

}  // namespace fathom
