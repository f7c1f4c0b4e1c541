// Twin: one tensor on the host and its copy on the GPU, so that an operation can run on both backends.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/cpu/cpu_backend.h"
#include "backends/cuda/cuda_backend.h"
#include "support/host_tensor.h"

namespace fathom::test {

// Skips, by name, where there is no GPU.
class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (cuda_devices(why) == 0) GTEST_SKIP() << "no CUDA device: " << why;
    auto gpu = std::make_unique<CudaBackend>(0);
    hopper_ = gpu->has_hopper_kernels();
    gpu_ = std::move(gpu);
    portable_ = std::make_unique<CudaBackend>(0, true);
  }
  // The GPU with all its kernels, and with those alone that every GPU has.
  std::vector<Backend*> both() { return {gpu_.get(), portable_.get()}; }
  bool on_hopper(const Backend* gpu) const { return hopper_ && gpu == gpu_.get(); }

  std::unique_ptr<Backend> gpu_, portable_;
  bool hopper_ = false;
  CpuBackend cpu_{4};
  Random random_{7};
};

// A tensor [.., last] inside guard bytes with `gap` unused entries after each row, at the same offsets on both sides.
class Twin {
 public:
  Twin(Backend& gpu, const Shape& shape, DType dtype, i64 gap = 0) : gpu_(gpu) {
    Shape padded = shape;
    padded[shape.rank() - 1] += gap;
    bytes_.assign(static_cast<std::size_t>(padded.numel() * size_of(dtype) + 2 * kGuard), kFill);
    storage_ = gpu.allocate(bytes_.size());
    const auto view = [&](void* base, Device device) {
      return Tensor(static_cast<std::byte*>(base) + kGuard, dtype, padded, device)
          .narrow(shape.rank() - 1, 0, shape[shape.rank() - 1]);
    };
    host = view(bytes_.data(), {});
    device = view(storage_.data(), gpu.device());
    push();
  }

  // Host bytes to the device.
  Twin& push() {
    gpu_.upload(raw(), bytes_.data());
    return *this;
  }
  Twin& fill(const std::function<double(i64)>& value) {
    for_each_element(host, [&](i64 i, i64 offset) { set(host, offset, value(i)); });
    return push();
  }
  Twin& normal(Random& random, double deviation = 1) {
    std::normal_distribution<double> draw(0, deviation);
    return fill([&](i64) { return draw(random); });
  }

  // What the GPU wrote equals what the CPU wrote: `relative` of the value and `absolute` apart at most, and nothing
  // outside the view was touched.
  void expect_same(double relative, double absolute) const {
    std::vector<std::byte> got(bytes_.size());
    gpu_.download(got.data(), raw());
    const std::byte* base = got.data() + kGuard;
    int shown = 0;
    for_each_element(host, [&](i64 i, i64 offset) {
      const Tensor view(const_cast<std::byte*>(base), host.dtype(), Shape{1});
      const double a = get(view, offset), b = get(host, offset);
      const double bound = relative * std::fabs(b) + absolute;
      if (!(std::fabs(a - b) <= bound) && !(std::isnan(a) && std::isnan(b)) && a != b && shown++ < 3)
        ADD_FAILURE() << "element " << i << " of " << to_string(host.shape()) << " " << name_of(host.dtype()) << ": "
                      << a << " on the GPU, " << b << " on the CPU, allowed +- " << bound;
    });
    std::vector<std::byte> mask(bytes_.size(), std::byte{1});
    for_each_element(host, [&](i64, i64 offset) {
      std::fill_n(mask.begin() + kGuard + offset * size_of(host.dtype()), size_of(host.dtype()), std::byte{0});
    });
    for (std::size_t i = 0; i < got.size(); ++i)
      if (mask[i] == std::byte{1} && got[i] != std::byte{kFill}) {
        ADD_FAILURE() << "byte " << i << " outside the output was written";
        break;
      }
  }
  // Forgets what the GPU wrote.
  void poison() {
    std::vector<unsigned char> bytes(bytes_.size(), kFill);
    gpu_.upload(raw(), bytes.data());
    gpu_.synchronize();  // another backend may write next
  }
  // One rounding of the output type each.
  void expect_same(double absolute) const { expect_same(2.02 * rounding_of(host.dtype()), absolute); }
  void expect_equal() const { expect_same(0, 0); }

  Tensor host, device;

 private:
  static constexpr i64 kGuard = 256;
  static constexpr unsigned char kFill = 0xa5;
  Tensor raw() const { return Tensor(storage_.data(), DType::u8, {static_cast<i64>(bytes_.size())}, gpu_.device()); }
  Backend& gpu_;
  std::vector<unsigned char> bytes_;
  Storage storage_;
};

// A random weight on both sides in one of the formats, or a stack of n.
class WeightTwin {
 public:
  WeightTwin(Backend& gpu, Random& random, const Format& format, const Shape& shape)
      : data_(gpu, shape, format.element()) {
    if (format.has_scale()) {
      data_.normal(random, 60);
      Shape scales = shape;
      for (int d = shape.rank() - 2; d < shape.rank(); ++d)
        scales[d] = (shape[d] + format.group_cols() - 1) / format.group_cols();
      scale_ = std::make_unique<Twin>(gpu, scales, DType::f32);
      std::uniform_int_distribution<int> exponent(-11, -8);
      std::uniform_real_distribution<double> mantissa(1, 2);
      scale_->fill([&](i64) { return std::ldexp(format.power_of_two() ? 1 : mantissa(random), exponent(random)); });
    } else {
      data_.normal(random, 0.05);
    }
    host = {data_.host, scale_ ? scale_->host : Tensor{}, &format};
    device = {data_.device, scale_ ? scale_->device : Tensor{}, &format};
  }
  Weight host, device;

 private:
  Twin data_;
  std::unique_ptr<Twin> scale_;
};

inline std::vector<const Format*> formats() { return {&kF32, &kBf16, &kFp8Block128, &kFp8Block128Ue8m0}; }

}  // namespace fathom::test
