// Writes synthetic checkpoints to disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/check.h"

namespace fathom {

struct SynthesisOptions {
  std::filesystem::path config;  // configuration file or model directory
  std::filesystem::path out;
  std::uint64_t seed = 0;
  bool sharded = false;    // model{rank}-mp{N}.safetensors instead of a Hugging Face directory
  int model_parallel = 1;  // N
  i64 layers = 0;          // cut to so many layers; 0: all
  i64 max_shard_bytes = i64{5} * 1000 * 1000 * 1000;
  int threads = 0;  // 0: one a physical core
};

struct SynthesisReport {
  i64 bytes = 0, tensors = 0;
  int files = 0;
  std::vector<std::string> warnings;  // of the configuration
  bool tokenizer = true;              // false: the vocabulary is too small for the byte-level tokenizer
};

// Writes the checkpoint, its configuration and a byte-level tokenizer. `progress` hears (bytes done, bytes in all).
SynthesisReport write_synthetic(const SynthesisOptions& options, const std::function<void(i64, i64)>& progress = {});

}  // namespace fathom
