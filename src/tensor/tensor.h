// Tensor: a non-owning, trivially copyable view of numbers on one device. Owners are Storage and Arena (arena.h).
#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>

#include "base/check.h"
#include "base/numeric.h"
#include "tensor/dtype.h"

namespace fathom {

enum class DeviceType : std::uint8_t { cpu, cuda };

struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

// Up to four dimensions, outermost first.
class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<i64> dims) : Shape(std::span<const i64>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const i64> dims);

  int rank() const { return rank_; }
  i64 operator[](int i) const { return dims_[static_cast<std::size_t>(i)]; }
  i64& operator[](int i) { return dims_[static_cast<std::size_t>(i)]; }
  i64 numel() const;
  bool operator==(const Shape&) const = default;

 private:
  std::array<i64, kMaxRank> dims_{};
  int rank_ = 0;
};

// "[3, 4]"
std::string to_string(const Shape& shape);

template <typename T>
constexpr bool holds(DType dtype) {
  using U = std::remove_const_t<T>;
  if constexpr (std::is_same_v<U, float>) return dtype == DType::f32;
  if constexpr (std::is_same_v<U, std::uint16_t>) return dtype == DType::bf16 || dtype == DType::f16;
  if constexpr (std::is_same_v<U, std::uint8_t>) return size_of(dtype) == 1;
  if constexpr (std::is_same_v<U, std::int32_t>) return dtype == DType::i32;
  if constexpr (std::is_same_v<U, i64>) return dtype == DType::i64;
  return false;
}

class Tensor {
 public:
  Tensor() = default;
  // A contiguous view of `data`.
  Tensor(void* data, DType dtype, const Shape& shape, Device device = {});

  void* data() const { return data_; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  i64 dim(int i) const { return shape_[i]; }
  i64 stride(int i) const { return strides_[i]; }  // in elements
  i64 numel() const { return shape_.numel(); }
  i64 bytes() const { return numel() * size_of(dtype_); }
  bool defined() const { return data_ != nullptr; }
  bool contiguous() const;

  // The pointer as T*; T must fit the dtype (u16 for bf16, u8 for the one-byte types).
  template <typename T>
  T* as() const {
    CHECK(holds<T>(dtype_), "tensor holds {}", name_of(dtype_));
    return static_cast<T*>(data_);
  }

  // The same view of other memory.
  Tensor at(void* data, Device device) const;
  // The same contiguous numbers under another shape of equal size.
  Tensor view(const Shape& shape) const;
  // `length` entries of dimension `dim` from `start` on; shares memory, keeps the rank.
  Tensor narrow(int dim, i64 start, i64 length) const;
  // A new dimension `dim` of `count` entries that are all the same numbers (stride 0).
  Tensor broadcast(int dim, i64 count) const;
  // Entry `index` of the first dimension, which disappears.
  Tensor operator[](i64 index) const;

 private:
  void* data_ = nullptr;
  DType dtype_ = DType::f32;
  Device device_;
  Shape shape_, strides_;
};

// Cuts the last dimension into two parts of `first` and `second` entries.
std::array<Tensor, 2> split(const Tensor& x, i64 first, i64 second);

}  // namespace fathom
