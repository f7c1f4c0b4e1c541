// The number of a token of a vocabulary: what text becomes and what the model computes with.
#pragma once

#include <cstdint>

namespace fathom {

using TokenId = std::int32_t;  // -1 where there is none

}  // namespace fathom
