// JSON to values of a template; all of it counts as content.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string_view>

#include "text/jinja/value.h"

namespace fathom::jinja {

// The value shares the strings of `json`, which must outlive the rendering.
Value from_json(Runtime& rt, const nlohmann::json& json);
Value from_json(Runtime& rt, const nlohmann::ordered_json& json);

// Parses JSON text straight into a value, keeping the order of keys and integers of up to 128 bits.
Value parse_json(Runtime& rt, std::string_view text);

}  // namespace fathom::jinja
