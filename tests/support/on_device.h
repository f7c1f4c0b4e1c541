// Operations of any backend on operands that lie on the host: each device of this build runs the same suite.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "backends/create.h"

namespace fathom::test {

class OnDevice {
 public:
  explicit OnDevice(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {}

  // On a device with its own memory the operands are copied there and back, with the gaps between their rows.
  template <typename Op>
  void run(Op op) {
    if (on_host()) return backend_->run(op);
    std::vector<Region> regions;
    op.each([&](Tensor& x) {
      if (x.defined() && x.numel() > 0) regions.push_back(region_of(x));
    });
    merge(regions);
    for (Region& r : regions) {
      r.storage = backend_->allocate(static_cast<std::size_t>(r.end - r.begin));
      backend_->upload(bytes_of(r), r.begin);
    }
    op.each([&](Tensor& x) { move_there(x, regions); });
    backend_->run(op);
    for (Region& r : regions) backend_->download(r.begin, bytes_of(r));
  }

  bool on_host() const { return backend_->device().type == DeviceType::cpu; }
  Backend& operator*() { return *backend_; }

 private:
  // Bytes of the host that one tensor, or several that overlap, lie in.
  struct Region {
    std::byte *begin, *end;
    Storage storage;
  };

  static Region region_of(const Tensor& x) {
    i64 last = 0;
    for (int d = 0; d < x.rank(); ++d) last += (x.dim(d) - 1) * x.stride(d);
    auto* begin = static_cast<std::byte*>(x.data());
    return {begin, begin + (last + 1) * size_of(x.dtype()), {}};
  }
  static void merge(std::vector<Region>& regions) {
    std::sort(regions.begin(), regions.end(), [](const Region& a, const Region& b) { return a.begin < b.begin; });
    std::vector<Region> merged;
    for (Region& r : regions) {
      if (merged.empty() || r.begin >= merged.back().end)
        merged.push_back(std::move(r));
      else
        merged.back().end = std::max(merged.back().end, r.end);
    }
    regions = std::move(merged);
  }
  Tensor bytes_of(const Region& r) const {
    return {r.storage.data(), DType::u8, {r.end - r.begin}, backend_->device()};
  }
  void move_there(Tensor& x, const std::vector<Region>& regions) const {
    for (const Region& r : regions) {
      auto* data = static_cast<std::byte*>(x.data());
      if (!x.defined() || data < r.begin || data >= r.end) continue;
      x = x.at(static_cast<std::byte*>(r.storage.data()) + (data - r.begin), backend_->device());
      return;
    }
  }

  std::unique_ptr<Backend> backend_;
};

// Every instruction set of this machine's CPU, and every other device of this build that works here.
inline void for_each_device(const std::function<void(OnDevice&)>& test) {
  for (const Isa isa : {Isa::generic, Isa::avx2, Isa::avx512}) {
    if (!has_isa(isa)) continue;
    SCOPED_TRACE(name_of(isa));
    OnDevice device(std::make_unique<CpuBackend>(2, isa));
    test(device);
  }
  for (const std::string& name : usable_devices()) {
    if (name == "cpu") continue;
    SCOPED_TRACE(name);
    OnDevice device(create_backend(name, 0));
    test(device);
  }
}

}  // namespace fathom::test
