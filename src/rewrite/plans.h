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
  ModelArgs args;  // not set for a cast
};

// A plan and what its items point into.
struct OwnedPlan {
  Source source;
  std::unique_ptr<Checkpoint> view;  // cast or quantised; may be null
  RewritePlan plan;
};

// What a plan is made of.
struct PlanInput {
  std::filesystem::path from, to;
  std::string config = {};     // replaces the directory's own configuration; may be empty
  bool ignore_unused = false;  // see require_sound()
};

// All throw Error when `from` is no Hugging Face directory (a converted one is named as such).

// For each rank the file that the reference's converter writes. Refuses sizes that do not divide the model before any
// tensor is read. `n_experts`: 0, or what the caller believes the model has.
OwnedPlan plan_convert(const PlanInput& input, i64 n_experts, int ranks, bool mtp);

// The same files with FP8 matrices as bf16, of any model: like the reference's script it looks at no architecture.
OwnedPlan plan_cast(const PlanInput& input, bool allow_missing_scale);

// The same files with the matrices that the family keeps in FP8 quantised.
OwnedPlan plan_quantize(const PlanInput& input, bool power_of_two_scales);

}  // namespace fathom
