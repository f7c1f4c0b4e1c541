// JSON from files that may be damaged or hostile: bounded depth, no duplicate keys, one-line errors.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/check.h"

namespace fathom {

// Parses one JSON document. Throws Error naming `source_name` and the place when the text is not JSON, is not UTF-8,
// nests deeper than `max_depth` or states a key of an object twice.
nlohmann::json parse_json(std::string_view text, const std::string& source_name, int max_depth = 32);

// A text of a foreign file made fit for a message: control characters escaped, long ones shortened.
std::string shown(std::string_view text);

// The same of a JSON value, as JSON.
std::string shown_json(const nlohmann::json& value);

}  // namespace fathom
