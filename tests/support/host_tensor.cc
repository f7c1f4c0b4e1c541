#include "support/host_tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace fathom::test {

void for_each_element(const Tensor& x, const std::function<void(i64, i64)>& f) {
  for (i64 i = 0; i < x.numel(); ++i) {
    i64 rest = i, offset = 0;
    for (int d = x.rank() - 1; d >= 0; --d) {
      offset += rest % x.dim(d) * x.stride(d);
      rest /= x.dim(d);
    }
    f(i, offset);
  }
}

double get(const Tensor& x, i64 offset) {
  const auto* bytes = static_cast<const std::byte*>(x.data()) + offset * size_of(x.dtype());
  const auto load = [bytes]<typename T>(T value) {
    std::memcpy(&value, bytes, sizeof value);
    return value;
  };
  switch (x.dtype()) {
    case DType::f32:
      return static_cast<double>(load(float{}));
    case DType::bf16:
      return static_cast<double>(bf16_to_float(load(bf16_bits{})));
    case DType::e4m3:
      return static_cast<double>(e4m3_to_float(load(e4m3_bits{})));
    case DType::i32:
      return load(std::int32_t{});
    case DType::i64:
      return static_cast<double>(load(i64{}));
    default:
      return load(std::uint8_t{});
  }
}

void set(const Tensor& x, i64 offset, double value) {
  auto* bytes = static_cast<std::byte*>(x.data()) + offset * size_of(x.dtype());
  const auto save = [bytes](auto typed) { std::memcpy(bytes, &typed, sizeof typed); };
  switch (x.dtype()) {
    case DType::f32:
      return save(static_cast<float>(value));
    case DType::bf16:
      return save(float_to_bf16(static_cast<float>(value)));
    case DType::e4m3:
      return save(float_to_e4m3(static_cast<float>(value)));
    case DType::i32:
      return save(static_cast<std::int32_t>(value));
    case DType::i64:
      return save(static_cast<i64>(value));
    default:
      return save(static_cast<std::uint8_t>(value));
  }
}

std::vector<double> values(const Tensor& x) {
  std::vector<double> all(static_cast<std::size_t>(x.numel()));
  for_each_element(x, [&](i64 i, i64 offset) { all[static_cast<std::size_t>(i)] = get(x, offset); });
  return all;
}

HostTensor::HostTensor(const Shape& shape, DType dtype, i64 gap) : gap_(gap) {
  Shape padded = shape;
  const int last = shape.rank() - 1;
  padded[last] += gap;
  bytes_.assign(static_cast<std::size_t>(padded.numel() * size_of(dtype) + 2 * kGuard), kFill);
  tensor_ = Tensor(bytes_.data() + kGuard, dtype, padded).narrow(last, 0, shape[last]);
  fill([](i64) { return 0.0; });
}

HostTensor::HostTensor(const HostTensor& other) : HostTensor(other->shape(), other->dtype(), other.gap_) {
  std::copy(other.bytes_.begin(), other.bytes_.end(), bytes_.begin());
}

HostTensor& HostTensor::fill(const std::function<double(i64)>& value) {
  for_each_element(tensor_, [&](i64 i, i64 offset) { set(tensor_, offset, value(i)); });
  return *this;
}

HostTensor& HostTensor::normal(Random& random, double deviation) {
  std::normal_distribution<double> draw(0, deviation);
  return fill([&](i64) { return draw(random); });
}

HostTensor& HostTensor::copy(const std::vector<double>& all) {
  return fill([&](i64 i) { return all[static_cast<std::size_t>(i)]; });
}

void HostTensor::expect_guards_intact() const {
  std::vector<std::uint8_t> seen(bytes_);
  const auto size = static_cast<std::size_t>(size_of(tensor_.dtype()));
  for_each_element(tensor_, [&](i64, i64 offset) {
    std::fill_n(seen.begin() + kGuard + offset * size_of(tensor_.dtype()), size, kFill);
  });
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](std::uint8_t b) { return b == kFill; }))
      << "bytes outside the output were written";
}

double tolerance(const Expected& e, DType dtype, double slack) {
  return std::fabs(e.value) * rounding_of(dtype) * 1.01 + e.magnitude * slack * 0x1p-24 + 1e-37;
}

void expect_close(const HostTensor& y, const std::vector<Expected>& expected, double slack) {
  const std::vector<double> got = values(*y);
  ASSERT_EQ(got.size(), expected.size());
  int shown = 0;
  for (std::size_t i = 0; i < got.size() && shown < 3; ++i)
    if (!(std::fabs(got[i] - expected[i].value) <= tolerance(expected[i], y->dtype(), slack)) && ++shown > 0)
      ADD_FAILURE() << "element " << i << " of " << to_string(y->shape()) << " " << name_of(y->dtype()) << ": "
                    << got[i] << ", expected " << expected[i].value << " +- "
                    << tolerance(expected[i], y->dtype(), slack);
  y.expect_guards_intact();
}

}  // namespace fathom::test
