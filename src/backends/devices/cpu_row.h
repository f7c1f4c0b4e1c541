// The CPU's row of the table of devices.
#pragma once

#include "backends/cpu/cpu_backend.h"
#include "backends/devices/devices.h"

namespace fathom {

inline constexpr DeviceRow kCpuRow{"cpu",
                                   [](std::string& description) {
                                     description = "the processor";
                                     return true;
                                   },
                                   [](int index, int threads) {
                                     CHECK(index == 0, "cpu:{}: the CPU is one device; use cpu", index);
                                     return make_cpu_backend(threads);
                                   }};

}  // namespace fathom
