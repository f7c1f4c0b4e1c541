// The model that is part of the program.
#pragma once

#include <string>

namespace fathom {

// Where it lies: beside an installed program, else in the source tree. Throws Error when it is in neither.
std::string embedded_model();

}  // namespace fathom
