#include "quant/byte_rows.h"

#include <algorithm>
#include <cmath>

namespace fathom {
namespace {

// Calls body(group, index of its first number, how many numbers it has).
template <typename Body>
void for_each_group(const Format& format, i64 out, i64 in, Body&& body) {
  for (i64 row = 0, group = 0; row < out; ++row)
    for (i64 c = 0; c < in; c += format.group_cols(), ++group)
      body(group, row * in + c, std::min(format.group_cols(), in - c));
}

}  // namespace

constinit const ByteRows kByteRows;

void ByteRows::quantize(const float* w, i64 out, i64 in, void* data, void* scale, void*) const {
  for_each_group(*this, out, in, [&](i64 group, i64 first, i64 n) {
    float largest = 0;
    for (i64 i = first; i < first + n; ++i) largest = std::max(largest, std::fabs(w[i]));
    const float step = largest > 0 ? largest / 127 : 1;
    static_cast<float*>(scale)[group] = step;
    for (i64 i = first; i < first + n; ++i)
      static_cast<std::uint8_t*>(data)[i] = static_cast<std::uint8_t>(std::round(w[i] / step) + 128);
  });
}

void ByteRows::dequantize(const void* data, const void* scale, const void*, i64 out, i64 in, float* y) const {
  for_each_group(*this, out, in, [&](i64 group, i64 first, i64 n) {
    for (i64 i = first; i < first + n; ++i)
      y[i] =
          static_cast<float>(static_cast<const std::uint8_t*>(data)[i] - 128) * static_cast<const float*>(scale)[group];
  });
}

}  // namespace fathom
