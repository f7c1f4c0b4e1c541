// Typed fields of a JSON object, with errors that name the object and the field.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "text/tokenizer/regex.h"

namespace fathom {

// Nesting allowed in a Sequence of parts.
inline constexpr int kMaxNesting = 32;

// The object's "type"; `role` names the object in errors ("normalizer").
std::string json_type(const nlohmann::json& object, const char* role);
std::string json_string(const nlohmann::json& object, const char* role, const char* field);
bool json_bool(const nlohmann::json& object, const char* role, const char* field);
// The fallback where the field is absent or null.
bool json_bool(const nlohmann::json& object, const char* role, const char* field, bool fallback);
long json_count(const nlohmann::json& object, const char* role, const char* field);
// The array in `field`.
const nlohmann::json& json_array(const nlohmann::json& object, const char* role, const char* field);
// Exactly one character.
char32_t json_char(const nlohmann::json& object, const char* role, const char* field);

// The field "pattern": {"Regex": "..."} or {"String": "..."}.
Regex json_pattern(const nlohmann::json& object, const char* role);

}  // namespace fathom
