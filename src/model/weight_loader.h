// Reads many tensors into their places on a device: in the order of the files, by several threads, ahead of their use.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "ops/backend.h"

namespace fathom {

// (A part of) a stored tensor and the contiguous place it goes to, of the same bytes.
struct LoadJob {
  const TensorInfo* stored;  // of the checkpoint's list
  Slice slice;
  Tensor to;
  bool mapped = false;  // `to` lies in the map of its file: its bytes need only come into memory
};

// Throws Error naming the tensor if codes of FP8 among these bytes of it are no numbers, which would otherwise show as
// an answer of nothing but NaN, or pass for 480. Other types are not looked at.
void check_codes(const Checkpoint& checkpoint, const TensorInfo& stored, std::span<const std::byte> bytes);

// Carries all jobs out, with check_codes() of what is read. `progress` hears the bytes that are read since the last
// call, on the calling thread.
void load_weights(const Checkpoint& checkpoint, Backend& backend, std::vector<LoadJob> jobs,
                  const std::function<void(i64 bytes)>& progress);

}  // namespace fathom
