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
  std::string sha256;                      // empty unless hashes were asked for
  std::vector<TensorInfo> tensors;         // in the order of their bytes
  std::vector<std::string> tensor_sha256;  // of each
  i64 kept_bytes = 0;                      // were written by an earlier, interrupted run
};

struct StreamOptions {
  bool hash = false;
  bool alone = true;                        // no other file is written meanwhile: hashing takes two threads, not one
  bool resume = false;                      // goes on with the unfinished file of an earlier run of the same items
  i64 mark_bytes = i64{512} << 20;          // at least so much is written between two synced marks
  std::function<void(i64 bytes)> progress;  // hears the bytes of tensors that are done since the last call
};

// Writes the items to `path`; the file appears when it is complete. Parts are read by the threads of the pool while
// those before them are hashed and written, all three at once.
FileDigest stream_tensors(const Checkpoint& checkpoint, const std::vector<StreamItem>& items,
                          const std::filesystem::path& path, ThreadPool& pool, const StreamOptions& options = {});

}  // namespace fathom
