// Rectangles of row-major tensors: their shape, and copying them out of whole tensors.
#pragma once

#include <cstddef>
#include <span>

#include "checkpoint/checkpoint.h"

namespace fathom {

// The shape of the part; throws Error naming the tensor when the slice does not lie inside it.
Shape slice_shape(const TensorInfo& info, const Slice& slice);

// Copies the part of `tensor` (the bytes of all of `info`) to `out`, which has exactly its bytes.
void copy_slice(const TensorInfo& info, const Slice& slice, std::span<const std::byte> tensor,
                std::span<std::byte> out);

}  // namespace fathom
