#include "tensor/tensor.h"

#include <algorithm>

namespace fathom {

Shape::Shape(std::span<const i64> dims) : rank_(static_cast<int>(dims.size())) {
  CHECK(dims.size() <= kMaxRank, "{} dimensions; at most {} are supported", dims.size(), kMaxRank);
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

i64 Shape::numel() const {
  i64 product = 1;
  for (int i = 0; i < rank_; ++i) product *= (*this)[i];
  return product;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", shape[i]);
  return text + "]";
}

Tensor::Tensor(void* data, DType dtype, const Shape& shape, Device device)
    : data_(data), dtype_(dtype), device_(device), shape_(shape), strides_(shape) {
  i64 step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides_[i] = step;
    step *= shape[i];
  }
}

bool Tensor::contiguous() const {
  i64 step = 1;
  for (int i = rank() - 1; i >= 0; --i) {
    if (dim(i) != 1 && stride(i) != step) return false;
    step *= dim(i);
  }
  return true;
}

Tensor Tensor::view(const Shape& shape) const {
  CHECK(contiguous(), "a view needs a contiguous tensor, this one has shape {}", to_string(shape_));
  CHECK(shape.numel() == numel(), "cannot view {} as {}", to_string(shape_), to_string(shape));
  return Tensor(data_, dtype_, shape, device_);
}

Tensor Tensor::at(void* data, Device device) const {
  Tensor moved = *this;
  moved.data_ = data;
  moved.device_ = device;
  return moved;
}

Tensor Tensor::narrow(int dimension, i64 start, i64 length) const {
  CHECK(dimension >= 0 && dimension < rank() && start >= 0 && length >= 0 && start + length <= dim(dimension),
        "cannot take [{}, {}) of dimension {} of {}", start, start + length, dimension, to_string(shape_));
  Tensor part = *this;
  part.data_ = static_cast<std::byte*>(data_) + start * stride(dimension) * size_of(dtype_);
  part.shape_[dimension] = length;
  return part;
}

Tensor Tensor::broadcast(int dimension, i64 count) const {
  CHECK(dimension >= 0 && dimension <= rank() && rank() < Shape::kMaxRank, "cannot add dimension {} to {}", dimension,
        to_string(shape_));
  Tensor wider = *this;
  std::array<i64, Shape::kMaxRank> dims{}, steps{};
  for (int i = 0; i <= rank(); ++i) {
    const int from = i < dimension ? i : i - 1;
    dims[static_cast<std::size_t>(i)] = i == dimension ? count : dim(from);
    steps[static_cast<std::size_t>(i)] = i == dimension ? 0 : stride(from);
  }
  const auto size = static_cast<std::size_t>(rank() + 1);
  wider.shape_ = Shape(std::span<const i64>(dims.data(), size));
  wider.strides_ = Shape(std::span<const i64>(steps.data(), size));
  return wider;
}

Tensor Tensor::operator[](i64 index) const {
  const Tensor one = narrow(0, index, 1);
  Tensor part = one;
  std::array<i64, Shape::kMaxRank> dims{}, steps{};
  for (int i = 1; i < rank(); ++i) {
    dims[static_cast<std::size_t>(i - 1)] = dim(i);
    steps[static_cast<std::size_t>(i - 1)] = stride(i);
  }
  const auto n = static_cast<std::size_t>(rank() - 1);
  part.shape_ = Shape(std::span<const i64>(dims.data(), n));
  part.strides_ = Shape(std::span<const i64>(steps.data(), n));
  return part;
}

std::array<Tensor, 2> split(const Tensor& x, i64 first, i64 second) {
  const int last = x.rank() - 1;
  CHECK(x.dim(last) == first + second, "cannot split {} into {} and {}", to_string(x.shape()), first, second);
  return {x.narrow(last, 0, first), x.narrow(last, first, second)};
}

}  // namespace fathom
