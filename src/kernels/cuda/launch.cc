#include "kernels/cuda/launch.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "kernels/cuda/errors.h"

namespace fathom {
namespace {

// Throws Error, or DeviceLost when the error is one that every call gives from then on, until the process ends.
void check(cudaError_t error, std::string_view what, std::string_view name) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // it is reported here, not by the next call
  const auto message =
      fmt::format("CUDA {} {}: {} ({})", what, name, cudaGetErrorString(error), cudaGetErrorName(error));
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorExternalDevice:
      throw DeviceLost(message);
    default:
      throw Error(message);
  }
}

}  // namespace

void check_cuda(cudaError_t error, std::string_view what) { check(error, "could not", what); }

}  // namespace fathom

namespace fathom::cuda {
namespace {

constexpr unsigned kMostX = std::numeric_limits<int>::max(), kMostYZ = 65535;  // blocks of a grid

// A kernel has 48 KiB without being allowed more; its own part of them is never above 16.
constexpr std::size_t kUnasked = 32u << 10;

// Lets a kernel have all the shared memory of its device, once: the same value whoever asks, so that streams and
// threads cannot undo each other's. Returns the bytes that it has of its own.
std::size_t allow_shared(Stream& s, const void* kernel) {
  if (const auto found = s.allowed.find(kernel); found != s.allowed.end()) return found->second;
  cudaFuncAttributes attributes{};
  check_cuda(cudaFuncGetAttributes(&attributes, kernel), "read the attributes of a kernel");
  int most = 0;
  check_cuda(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, s.device.index),
             "ask for a block's shared memory");
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  most - static_cast<int>(attributes.sharedSizeBytes)),
             "allow a kernel more shared memory");
  return s.allowed[kernel] = attributes.sharedSizeBytes;
}

}  // namespace

void configure(Stream& s, const void* kernel, const Launch& launch, Configuration& to) {
  const Device& device = s.device;
  const dim3& grid = launch.grid;
  CHECK(grid.x <= kMostX && grid.y <= kMostYZ && grid.z <= kMostYZ,
        "the kernel {} would need {} x {} x {} blocks, a GPU takes {} x {} x {} at most; passes of fewer tokens need "
        "fewer",
        launch.name, grid.x, grid.y, grid.z, kMostX, kMostYZ, kMostYZ);
  const auto check_shared = [&](std::size_t bytes) {
    CHECK(bytes <= static_cast<std::size_t>(device.shared_bytes),
          "the kernel {} needs {} bytes of shared memory a block, this device has {}; it must not be chosen here",
          launch.name, bytes, device.shared_bytes);
  };
  check_shared(launch.shared);
  if (launch.shared > kUnasked) check_shared(launch.shared + allow_shared(s, kernel));
  to.config.gridDim = grid;
  to.config.blockDim = launch.block;
  to.config.dynamicSmemBytes = launch.shared;
  to.config.stream = s.handle;
  to.config.attrs = to.attributes;
  const auto add = [&](cudaLaunchAttributeID id) -> cudaLaunchAttributeValue& {
    to.attributes[to.config.numAttrs].id = id;
    return to.attributes[to.config.numAttrs++].val;
  };
  if (launch.early && device.early)
    add(cudaLaunchAttributeProgrammaticStreamSerialization).programmaticStreamSerializationAllowed = 1;
  if (launch.cluster > 0)
    add(cudaLaunchAttributeClusterDimension).clusterDim = {static_cast<unsigned>(launch.cluster), 1, 1};
  if (launch.at_once > 0) {
    constexpr std::size_t kReserved = 1024;  // of each block
    const auto have = static_cast<std::size_t>(device.multiprocessor_shared_bytes),
               wanted = static_cast<std::size_t>(launch.at_once) * (launch.shared + kReserved);
    add(cudaLaunchAttributePreferredSharedMemoryCarveout).sharedMemCarveout =
        static_cast<unsigned>(std::min<std::size_t>((wanted * 100 + have - 1) / have, 100));
  }
}

void check_launch(const char* kernel, cudaError_t error) { check(error, "refused the kernel", kernel); }

}  // namespace fathom::cuda
