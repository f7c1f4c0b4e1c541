// Streams (parts of) tensors of a checkpoint into one safetensors file, in bounded memory.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"

namespace fathom {

// One tensor of the file to write: its stored name, and what of which source tensor it holds.
struct StreamItem {
  std::string stored_name;
  const TensorInfo* source;
  Slice slice;
  bool costly = false;  // each number takes as much work as a block of 128 x 128
};

// What a written file holds.
struct FileDigest {
  i64 bytes = 0;
  std::string sha256;
  std::vector<TensorInfo> tensors;         // in the order of their bytes
  std::vector<std::string> tensor_sha256;  // of each
};

// Writes the items to `path`; the file appears when it is complete. Parts are read by the threads of the pool while
// those before them are written. `progress` hears the bytes of each written batch. The digest, if asked for, is
// computed on the way.
void stream_tensors(const Checkpoint& checkpoint, const std::vector<StreamItem>& items,
                    const std::filesystem::path& path, ThreadPool& pool,
                    const std::function<void(i64 bytes)>& progress = {}, FileDigest* digest = nullptr);

}  // namespace fathom
