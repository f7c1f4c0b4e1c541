#include "kernels/cuda/launch.h"

#include "base/check.h"

namespace fathom::cuda {

void check(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return;
  const std::string message = fmt::format("{}: {} ({})", what, cudaGetErrorString(error), cudaGetErrorName(error));
  switch (error) {  // those after which every call gives the same, until the process ends
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

void check_launch(const char* kernel) {
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess)
    check(error, fmt::format("CUDA refused the kernel {}", kernel));
}

}  // namespace fathom::cuda
