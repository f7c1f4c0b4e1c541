// What the system lets this process have: memory and processors, with the limits of control groups (version 1 and 2).
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/check.h"

namespace fathom {

// Bytes. `free` can be taken without swapping: what the system calls available, or what is left of a control group's
// limit. `limit`: what sets it, for messages: "this machine" or "this control group".
struct HostMemory {
  i64 free = 0, total = 0;
  std::string limit;
};

// `root` is where /proc and /sys are, for tests. Nothing where the system does not say.
std::optional<HostMemory> host_memory(const std::filesystem::path& root = "/");

// Processors whose time the control groups allow, such as 1.5; nothing where they set no limit.
std::optional<double> processor_quota(const std::filesystem::path& root = "/");

}  // namespace fathom
