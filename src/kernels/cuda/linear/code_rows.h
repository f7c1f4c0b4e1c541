// Where the codes of rows of activations and their scales lie in scratch: one behind the other.
#pragma once

#include "kernels/cuda/array.h"

namespace fathom::cuda {

// Room for so many bytes in scratch, whose parts begin at whole 256 bytes.
inline i64 aligned(i64 bytes) { return (bytes + 255) / 256 * 256; }

// Codes [rows, in]. Scales of each 128 entries: [rows, in / 128], or with a stride [in / 128, stride], as bulk copies
// want them.
struct CodeRows {
  std::uint8_t* codes = nullptr;
  float* scales = nullptr;
  i64 stride = 0;

  static CodeRows by_row(void* scratch, i64 rows, i64 in) { return at(scratch, rows, in, 0); }
  static CodeRows by_column(void* scratch, i64 rows, i64 in) { return at(scratch, rows, in, (rows + 3) / 4 * 4); }
  // Room for either.
  static i64 bytes(i64 rows, i64 in) { return aligned(rows * in) + aligned((rows + 3) / 4 * 4 * (in / 128) * 4); }

 private:
  static CodeRows at(void* scratch, i64 rows, i64 in, i64 stride) {
    auto* codes = static_cast<std::uint8_t*>(scratch);
    return {codes, reinterpret_cast<float*>(codes + aligned(rows * in)), stride};
  }
};

}  // namespace fathom::cuda
