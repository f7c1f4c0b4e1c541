// Builds with CUDA.
#include <array>

#include "backends/cuda/cuda_backend.h"
#include "backends/devices/cpu_row.h"

namespace fathom {
namespace {

bool cuda_usable(std::string& description) {
  if (cuda_devices(description) == 0) return false;
  description = cuda_device_description(0);
  return true;
}

constexpr std::array kDevices = {
    DeviceRow{"cuda", &cuda_usable,
              [](int index, int) -> std::unique_ptr<Backend> { return std::make_unique<CudaBackend>(index); }},
    kCpuRow};

}  // namespace

std::span<const DeviceRow> device_table() { return kDevices; }

}  // namespace fathom
