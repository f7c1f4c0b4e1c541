// Sizes in bytes as people read them.
#pragma once

#include <string>

#include "base/check.h"

namespace fathom {

// "12.3 GB", "512 kB": decimal units as disks are sold and as the files' index counts.
std::string bytes_text(i64 bytes);

}  // namespace fathom
