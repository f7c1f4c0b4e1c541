// The two forms of an inspect report.
#pragma once

#include <string>

#include "rewrite/inspect.h"

namespace fathom {

// A table for people.
std::string report_text(const InspectReport& report);
// The same as JSON, indented.
std::string report_json(const InspectReport& report);

}  // namespace fathom
