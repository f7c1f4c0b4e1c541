// What this program's GPU code was built for.
#pragma once

#include <string_view>

namespace fathom::cuda {

// The architectures, such as "sm_90a" or "sm_80, sm_89, sm_90a, newer".
std::string_view built_for();

// Whether the current GPU can run the code.
bool runs_here();

}  // namespace fathom::cuda
