// HostTensor: an owner of test numbers on the host with guard bytes round it, and comparison with double-precision
// expectations.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "tensor/tensor.h"

namespace fathom::test {

using Random = std::mt19937_64;

// Calls f(flat index, element offset) for every element of a strided tensor, last dimension fastest.
void for_each_element(const Tensor& x, const std::function<void(i64, i64)>& f);

// The element at an offset in elements.
double get(const Tensor& x, i64 offset);
void set(const Tensor& x, i64 offset, double value);

// All elements as double, last dimension fastest.
std::vector<double> values(const Tensor& x);

// Owns one tensor. Everything round the view (guards, and the gaps of a strided view) is 0xa5 and must stay so.
class HostTensor {
 public:
  // `gap` unused elements follow each row of the last dimension, so that the view is not contiguous.
  HostTensor(const Shape& shape, DType dtype, i64 gap = 0);

  HostTensor(const HostTensor& other);
  HostTensor(HostTensor&&) = default;  // the bytes keep their address

  const Tensor& operator*() const { return tensor_; }
  const Tensor* operator->() const { return &tensor_; }

  HostTensor& fill(const std::function<double(i64)>& value);
  HostTensor& normal(Random& random, double deviation = 1);
  HostTensor& copy(const std::vector<double>& all);

  // Nothing but the elements of the view was written.
  void expect_guards_intact() const;

 private:
  static constexpr i64 kGuard = 256;
  static constexpr std::uint8_t kFill = 0xa5;
  i64 gap_;
  std::vector<std::uint8_t> bytes_;
  Tensor tensor_;
};

// An expected number and the sum of the magnitudes it was summed from: rounding errors scale with that.
struct Expected {
  double value = 0, magnitude = 0;
};

// Half a unit in the last place of the type, relative.
inline double rounding_of(DType dtype) { return dtype == DType::bf16 ? 0x1p-8 : 0x1p-24; }

// float32 sums of any order (16 roundings of the whole magnitude) and one rounding to the output's type.
double tolerance(const Expected& e, DType dtype, double slack = 16);

void expect_close(const HostTensor& y, const std::vector<Expected>& expected, double slack = 16);

}  // namespace fathom::test
