// What a checkpoint or a configuration is: sizes, formats, memory, and what is missing or stray.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/args.h"

namespace fathom {

struct InspectOptions {
  std::string model;                        // directory or synthetic:CONFIG; empty: the configuration alone
  std::string config;                       // replaces the directory's own
  int tp = 0;                               // ranks that the memory figures are for; 0: those it is divided among
  i64 max_batch_size = 0, max_seq_len = 0;  // 0: as the arguments say
};

struct InspectFile {
  std::string name;
  i64 bytes = 0, tensors = 0;
};

struct InspectReport {
  std::string source;
  ModelArgs args;
  // Of the model without MTP layers; activated: matrices that one token uses (head counted, embedding and norms not).
  i64 parameters = 0, activated = 0, mtp_parameters = 0;
  std::map<std::string, i64> group_parameters, group_bytes,
      type_bytes;  // MTP layers are a group, scales count as bytes
  i64 bytes = 0;
  bool has_weights = false;  // the rest is about files
  int shards = 1;
  std::vector<InspectFile> files;
  std::vector<std::string> missing, mismatched, stray_tensors, derived_tensors, stray_files;
  // Memory of one rank.
  int tp = 1;
  i64 max_batch_size = 0, max_seq_len = 0, rank_weight_bytes = 0, rank_cache_bytes = 0, cache_bytes_per_token = 0;
  std::string tp_obstacle;  // why tp ranks cannot be; the rank figures are then absent
};

InspectReport inspect(const InspectOptions& options);

// Throws Error naming the first fault when tensors are missing, of another shape or type than the configuration says,
// or none of the model's.
void require_complete(const InspectReport& report);

}  // namespace fathom
