// Whether a checkpoint is whole and sound: every fault by name.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/check.h"

namespace fathom {

struct VerifyOptions {
  std::filesystem::path model;
  std::filesystem::path against;  // a manifest, a list of SHA-256 hashes or another directory; may be empty
  bool numbers = false;           // look at all numbers for NaN, infinities and matrices of zeros
  std::string config;             // replaces the directory's own configuration; may be empty
  int threads = 0;                // 0: one a physical core
};

struct VerifyReport {
  std::vector<std::string> faults;
  std::vector<std::string> notes;     // odd, but no fault
  std::vector<std::string> warnings;  // of the configuration
  i64 files = 0;                      // safetensors files of the checkpoint
  i64 hashed_bytes = 0;               // compared with known hashes or with another directory
  i64 numbers_bytes = 0;              // of tensors whose numbers were looked at; 0 without `numbers`
  std::string compared_with;          // empty: there was nothing to compare with
};

// Checks headers, index, architecture, scales, and contents against `against`, the directory's own manifest.json, or
// the names of the files that it links to in the cache of the hub.
VerifyReport verify(const VerifyOptions& options, const std::function<void(i64 done, i64 total)>& progress = {});

}  // namespace fathom
