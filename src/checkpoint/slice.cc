#include "checkpoint/slice.h"

#include <cstring>

namespace fathom {

Shape slice_shape(const TensorInfo& info, const Slice& slice) {
  Shape shape = info.shape;
  if (slice.dim < 0) return shape;
  CHECK(slice.dim < shape.rank() && slice.start >= 0 && slice.length >= 0 && slice.length <= shape[slice.dim] &&
            slice.start <= shape[slice.dim] - slice.length,
        "cannot take {} entries from {} of dimension {} of {} {}", slice.length, slice.start, slice.dim, info.name,
        to_string(info.shape));
  shape[slice.dim] = slice.length;
  return shape;
}

void copy_slice(const TensorInfo& info, const Slice& slice, std::span<const std::byte> tensor,
                std::span<std::byte> out) {
  const Shape part = slice_shape(info, slice);
  const i64 element = size_of(info.dtype);
  CHECK(static_cast<i64>(tensor.size()) == info.bytes() && static_cast<i64>(out.size()) == part.numel() * element,
        "reading {} {}: {} bytes of room for a part of {} bytes", info.name, to_string(part), out.size(),
        part.numel() * element);
  if (out.empty()) return;
  const int dim = slice.dim < 0 ? 0 : slice.dim;
  i64 runs = 1, inner = element;  // the part is `runs` runs of bytes
  for (int i = 0; i < part.rank(); ++i) (i < dim ? runs : inner) *= i == dim ? 1 : part[i];
  const i64 whole = part.rank() == 0 ? 1 : info.shape[dim], length = part.rank() == 0 ? 1 : part[dim];
  const i64 start = slice.dim < 0 ? 0 : slice.start;
  for (i64 run = 0; run < runs; ++run)
    std::memcpy(out.data() + run * length * inner, tensor.data() + (run * whole + start) * inner,
                static_cast<std::size_t>(length * inner));
}

}  // namespace fathom
