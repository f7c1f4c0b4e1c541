#include "backends/create.h"

#include <array>
#include <string_view>

#include "backends/cpu/cpu_backend.h"

namespace fathom {
namespace {

struct DeviceRow {
  std::string_view name;
  std::unique_ptr<Backend> (*make)(int threads);
};

// Best device first: "auto" takes the first.
constexpr std::array<DeviceRow, 1> kDevices = {{{"cpu", &make_cpu_backend}}};

}  // namespace

std::unique_ptr<Backend> create_backend(const std::string& device, int threads) {
  if (device == "auto") return kDevices.front().make(threads);
  std::string known = "auto";
  for (const DeviceRow& row : kDevices) {
    if (row.name == device) return row.make(threads);
    known += fmt::format(", {}", row.name);
  }
  fail("unknown device '{}'; known devices: {}", device, known);
}

}  // namespace fathom
