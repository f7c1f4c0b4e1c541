// Sizes in bytes as people read them.
#pragma once

#include <string>

#include "base/check.h"

namespace fathom {

// "12.3 GB", "512 kB": decimal units as disks are sold and as the files' index counts.
std::string bytes_text(i64 bytes);

// Memory, in binary units: "1.25 GiB", "12.0 MiB", "3.5 KiB".
std::string memory_text(i64 bytes);

}  // namespace fathom
