// What a model takes of a device's memory: measured before anything is loaded, so that too little is told at once.
#pragma once

#include "engine/options.h"
#include "model/transformer.h"

namespace fathom {

// Bytes.
struct MemoryNeed {
  i64 weights = 0;
  i64 scratch = 0;  // of the largest pass, with its inputs
  i64 block = 0;    // of the cache, all layers
};

// Bytes of the arena that the largest pass takes, the weights of `model` being in `store`. Both may be dry.
i64 measure_scratch(const Transformer& model, const ModelArgs& args, const RunnerOptions& options,
                    const WeightStore& store);

// Builds the model dry, as it would be in `store`: its ranks, its checkpoint's formats, its device. All limits but that
// of the blocks must be set.
MemoryNeed measure_memory(const ModelArgs& args, const RunnerOptions& options,
                          const WeightStore& store = WeightStore(0, 1));

// How many blocks the cache gets: limits.blocks if set, else enough for all sequences at full length, at most what is
// free besides `need.weights` and `need.scratch`. Throws Error when that is too little: for what was asked, or for one
// sequence.
i64 fitting_blocks(const MemoryNeed& need, const Limits& limits, const std::optional<DeviceMemory>& memory);

}  // namespace fathom
