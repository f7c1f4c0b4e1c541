// Between two decode steps: the next inputs, made on the device.
#pragma once

#include "base/sampling.h"
#include "kernels/cuda/array.h"
#include "kernels/cuda/device.h"

namespace fathom::cuda {

// See ops/sampling.h, advance.
struct Advance {
  std::int32_t *ids, *positions, *slots, *context_lens;  // [count]
  const std::int32_t* block_tables;                      // [count, table_stride]
  i64 table_stride;
  int table_width, block_size;
  const std::int32_t* drawn;  // [count]
  RowSampling* sampling;      // [count]
  std::int32_t* log;          // [1 + log_rows, count]
  int log_rows, count;
};
void advance(Stream& s, const Advance& a);
void fill_random(Stream& s, const Array& x, std::uint64_t seed);

}  // namespace fathom::cuda
