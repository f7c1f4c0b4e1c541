// Streams (parts of) tensors of a checkpoint into one safetensors file, in bounded memory.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"

namespace fathom {

// One tensor of the file to write: its stored name, and what of which source tensor it holds.
struct StreamItem {
  std::string stored_name;
  const TensorInfo* source;
  Slice slice;
};

// Writes the items to `path`; the file appears when it is complete. Parts are read by the threads of the pool while
// those before them are written. `progress` hears the bytes of each written batch.
void stream_tensors(const Checkpoint& checkpoint, const std::vector<StreamItem>& items,
                    const std::filesystem::path& path, ThreadPool& pool,
                    const std::function<void(i64 bytes)>& progress = {});

}  // namespace fathom
