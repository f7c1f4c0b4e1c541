// Devices by name: a name becomes a Backend.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/backend.h"

namespace fathom {

// "cpu", "cuda" or "cuda:N" where this build has them, or "auto" for the best device that works here; "cuda-portable"
// is a GPU without the kernels that only some architectures have, for tests of what other cards run. `threads` counts
// CPU threads, 0 takes one a physical core. `choice`, if given, receives what was taken and why, in one line. Throws
// Error for an unknown or unusable device.
std::unique_ptr<Backend> create_backend(const std::string& device, int threads, std::string* choice = nullptr);

// The names of this build's devices that work here.
std::vector<std::string> usable_devices();

// The devices of this build: "auto, cpu" or "auto, cuda, cpu, cuda-portable".
std::string known_devices();

}  // namespace fathom
