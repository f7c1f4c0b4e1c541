// Builds without CUDA.
#include <array>

#include "backends/devices.h"

namespace fathom {
namespace {

constexpr std::array kDevices = {kCpuRow};

}  // namespace

std::span<const DeviceRow> device_table() { return kDevices; }

}  // namespace fathom
