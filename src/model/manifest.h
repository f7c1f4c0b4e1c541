// The manifest: every parameter of a model and how each is divided among ranks, read off the modules' constructors.
#pragma once

#include <vector>

#include "checkpoint/checkpoint.h"
#include "model/args.h"

namespace fathom {

// One tensor of the checkpoint as one rank sees it.
struct ManifestEntry {
  TensorInfo full;  // the whole tensor, under the reference's name
  Slice slice;      // this rank's part; dim < 0: all of it
  std::string
      group;  // for reports: "embedding", "attention", "dense", "shared", "routed", "gate", "norm", "head", "mtp"
  i64 parameters = 0;              // numbers of the model in the whole tensor: none in scales and zero points
  const Format* format = nullptr;  // of a matrix, beside its data

  Shape shape() const;  // of this rank's part
};

// Every tensor that `rank` of `world_size` loads, in the order of loading (experts of other ranks are left out).
// With `mtp`, those of the multi-token-prediction layers too. Matrices have the formats in which `stored` has them,
// without it that of the configuration. Throws Error when the model cannot be divided.
std::vector<ManifestEntry> manifest(const ModelArgs& args, int rank = 0, int world_size = 1, bool mtp = false,
                                    const Checkpoint* stored = nullptr);

}  // namespace fathom
