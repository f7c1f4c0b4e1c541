// "Did you mean": the nearest of a list of known names.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace fathom {

// The known name with the smallest edit distance to `name`; empty when `known` is empty.
std::string nearest_name(std::string_view name, std::span<const std::string_view> known);

}  // namespace fathom
