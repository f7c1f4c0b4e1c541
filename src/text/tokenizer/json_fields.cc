#include "text/tokenizer/json_fields.h"

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "text/unicode/utf8.h"

namespace fathom {
namespace {

const nlohmann::json& field_of(const nlohmann::json& object, const char* role, const char* field) {
  CHECK(object.is_object(), "tokenizer.json: a {} must be an object, not {}", role, object.type_name());
  const auto found = object.find(field);
  CHECK(found != object.end(), "tokenizer.json: a {} lacks the field \"{}\"", role, field);
  return *found;
}

}  // namespace

std::string json_type(const nlohmann::json& object, const char* role) { return json_string(object, role, "type"); }

std::string json_string(const nlohmann::json& object, const char* role, const char* field) {
  const nlohmann::json& value = field_of(object, role, field);
  CHECK(value.is_string(), "tokenizer.json: \"{}\" of a {} must be a string, not {}", field, role, value.type_name());
  return value.get<std::string>();
}

bool json_bool(const nlohmann::json& object, const char* role, const char* field) {
  const nlohmann::json& value = field_of(object, role, field);
  CHECK(value.is_boolean(), "tokenizer.json: \"{}\" of a {} must be true or false, not {}", field, role,
        value.type_name());
  return value.get<bool>();
}

bool json_bool(const nlohmann::json& object, const char* role, const char* field, bool fallback) {
  if (object.is_object()) {
    const auto found = object.find(field);
    if (found == object.end() || found->is_null()) return fallback;
  }
  return json_bool(object, role, field);
}

long json_count(const nlohmann::json& object, const char* role, const char* field) {
  const nlohmann::json& value = field_of(object, role, field);
  CHECK(value.is_number_unsigned() && value.get<std::uint64_t>() < (1u << 30),
        "tokenizer.json: \"{}\" of a {} must be a count, not {}", field, role, value.dump());
  return value.get<long>();
}

const nlohmann::json& json_array(const nlohmann::json& object, const char* role, const char* field) {
  const nlohmann::json& value = field_of(object, role, field);
  CHECK(value.is_array(), "tokenizer.json: \"{}\" of a {} must be an array, not {}", field, role, value.type_name());
  return value;
}

char32_t json_char(const nlohmann::json& object, const char* role, const char* field) {
  const std::string text = json_string(object, role, field);
  std::size_t at = 0;
  const char32_t c = text.empty() ? 0 : next_char(text, at);
  CHECK(!text.empty() && at == text.size(), "tokenizer.json: \"{}\" of a {} must be one character, not {:?}", field,
        role, text);
  return c;
}

Regex json_pattern(const nlohmann::json& object, const char* role) {
  const nlohmann::json& pattern = field_of(object, role, "pattern");
  CHECK(pattern.is_object() && pattern.size() == 1 && pattern.begin()->is_string() &&
            (pattern.contains("Regex") || pattern.contains("String")),
        "tokenizer.json: the pattern of a {} must be {{\"Regex\": text}} or {{\"String\": text}}", role);
  const std::string text = pattern.begin()->get<std::string>();
  return pattern.contains("Regex") ? Regex(text) : Regex::literal(text);
}

}  // namespace fathom
