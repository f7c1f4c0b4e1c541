// Which file is mapped at an address.
#pragma once

#include <span>
#include <string_view>

namespace fathom {

// The path of the file whose map holds `address`, written into `room` (cut where that is too small); empty when it is
// no file's. May be called from a signal handler.
std::string_view mapped_path(const void* address, std::span<char> room);

}  // namespace fathom
