// The table of devices. Which of the two files that define it is built depends on the build options.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "backends/cpu/cpu_backend.h"

namespace fathom {

struct DeviceRow {
  std::string_view name;
  // Whether the device works here; says what it is, or what is missing.
  bool (*usable)(std::string& description);
  // `index` is the N of "name:N", 0 without one.
  std::unique_ptr<Backend> (*make)(int index, int threads);
};

inline constexpr DeviceRow kCpuRow{"cpu",
                                   [](std::string& description) {
                                     description = "the processor";
                                     return true;
                                   },
                                   [](int index, int threads) {
                                     CHECK(index == 0, "cpu:{}: the CPU is one device; use cpu", index);
                                     return make_cpu_backend(threads);
                                   }};

// Best device first.
std::span<const DeviceRow> device_table();

}  // namespace fathom
