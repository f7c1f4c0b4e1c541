#include "quant/weight.h"

namespace fathom {

Weight Weight::operator[](i64 i) const {
  if (apart != nullptr) return apart[i];
  const auto part = [&](const Tensor& x) { return x.defined() ? x[i] : Tensor{}; };
  return {part(data), part(scale), format, nullptr, part(zero), {out(), in()}};
}

Weight Weight::rows(i64 first, i64 n) const {
  const auto part = [&](const Tensor& x, Shape (Format::*shape)(i64, i64) const) {
    return x.defined() ? x.narrow(0, (format->*shape)(first, in())[0], (format->*shape)(n, in())[0]) : Tensor{};
  };
  return {part(data, &Format::data_shape),
          part(scale, &Format::scale_shape),
          format,
          nullptr,
          part(zero, &Format::scale_shape),
          {n, in()}};
}

void Weight::dequantize(float* y) const { format->dequantize(data.data(), scale.data(), zero.data(), out(), in(), y); }

}  // namespace fathom
