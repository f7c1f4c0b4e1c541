// The one table of devices: a name becomes a Backend.
#pragma once

#include <memory>
#include <string>

#include "ops/backend.h"

namespace fathom {

// "cpu", or "auto" for the best device there is. `threads` counts CPU threads, 0 takes one a physical core. Throws
// Error for an unknown device.
std::unique_ptr<Backend> create_backend(const std::string& device, int threads);

}  // namespace fathom
