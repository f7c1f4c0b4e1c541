// Builds with CUDA.
#include <array>

#include "backends/cuda/cuda_backend.h"
#include "backends/devices.h"

namespace fathom {
namespace {

bool cuda_usable(std::string& description) {
  if (cuda_devices(description) == 0) return false;
  try {
    const std::string obstacle = cuda_obstacle(0);
    description = obstacle.empty() ? cuda_device_description(0) : obstacle;
    return obstacle.empty();
  } catch (const Error& error) {  // such as a GPU that is closed to this process
    description = error.what();
    return false;
  }
}

template <bool portable>
std::unique_ptr<Backend> make_cuda(int index, int /*threads*/) {
  return std::make_unique<CudaBackend>(index, portable);
}

// The last row is for tests of what other cards run; the CPU before it always works, so "auto" never comes to it.
constexpr std::array kDevices = {DeviceRow{"cuda", &cuda_usable, &make_cuda<false>}, kCpuRow,
                                 DeviceRow{"cuda-portable", &cuda_usable, &make_cuda<true>}};

}  // namespace

std::span<const DeviceRow> device_table() { return kDevices; }

}  // namespace fathom
