#include "server/fields.h"

#include <cmath>
#include <limits>

namespace fathom {
namespace {

constexpr int kDepth = 64;  // of nested values in a body

std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  constexpr std::size_t kShown = 60;
  if (text.size() > kShown) {
    text.resize(kShown);
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80) text.pop_back();
    if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xc0) text.pop_back();
    text += "...";
  }
  return text;
}

}  // namespace

Json parse_body(std::string_view body) {
  const auto shallow = [](int depth, Json::parse_event_t, Json&) {
    if (depth > kDepth) throw ApiError(400, fmt::format("the body nests values more than {} deep", kDepth));
    return true;
  };
  Json object;
  try {
    object = Json::parse(body, shallow);
  } catch (const nlohmann::json::exception& error) {
    throw ApiError(400, fmt::format("the body is not valid JSON: {}", error.what()));
  }
  if (!object.is_object()) throw ApiError(400, fmt::format("the body must be a JSON object, not {}", shown(object)));
  return object;
}

Fields::Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
  if (!object.is_object())
    throw ApiError(400, fmt::format("'{}' must be an object, not {}", path_.substr(0, path_.size() - 1), shown(object)),
                   path_.substr(0, path_.size() - 1));
}

const Json* Fields::find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const Json& Fields::required(const char* name) const {
  const Json* value = find(name);
  if (value == nullptr) throw ApiError(400, fmt::format("'{}' is missing", name_of(name)), name_of(name));
  return *value;
}

void Fields::refuse(const char* name, const std::string& rule, const Json& value) const {
  throw ApiError(400, fmt::format("'{}' must be {}, not {}", name_of(name), rule, shown(value)), name_of(name));
}

bool Fields::boolean(const char* name, bool absent) const {
  const Json* value = find(name);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) refuse(name, "true or false", *value);
  return value->get<bool>();
}

i64 Fields::integer(const char* name, i64 absent, i64 least, i64 most) const {
  const Json* value = find(name);
  if (value == nullptr) return absent;
  const std::string rule = most == std::numeric_limits<i64>::max()
                               ? fmt::format("a whole number of at least {}", least)
                               : fmt::format("a whole number from {} to {}", least, most);
  if (value->is_number_unsigned() && value->get<std::uint64_t>() > static_cast<std::uint64_t>(most))
    refuse(name, rule, *value);
  if (!value->is_number_integer()) refuse(name, rule, *value);
  const i64 number = value->get<i64>();
  if (number < least || number > most) refuse(name, rule, *value);
  return number;
}

double Fields::number(const char* name, double absent, double least, double most) const {
  const Json* value = find(name);
  if (value == nullptr) return absent;
  if (!value->is_number()) refuse(name, fmt::format("a number from {} to {}", least, most), *value);
  const double number = value->get<double>();
  if (!(number >= least && number <= most)) refuse(name, fmt::format("a number from {} to {}", least, most), *value);
  return number;
}

std::string Fields::text(const char* name, const std::string& absent) const {
  const Json* value = find(name);
  if (value == nullptr) return absent;
  if (!value->is_string()) refuse(name, "a text", *value);
  return value->get<std::string>();
}

std::vector<std::string> Fields::texts(const char* name, std::size_t most) const {
  const Json* value = find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  if (!value->is_array()) refuse(name, "a text or a list of texts", *value);
  if (value->size() > most) refuse(name, fmt::format("a list of at most {} texts", most), *value);
  std::vector<std::string> texts;
  for (const Json& one : *value) {
    if (!one.is_string()) refuse(name, "a text or a list of texts", *value);
    texts.push_back(one.get<std::string>());
  }
  return texts;
}

const Json* Fields::object(const char* name) const {
  const Json* value = find(name);
  if (value != nullptr && !value->is_object()) refuse(name, "an object", *value);
  return value;
}

const Json* Fields::array(const char* name) const {
  const Json* value = find(name);
  if (value != nullptr && !value->is_array()) refuse(name, "a list", *value);
  return value;
}

}  // namespace fathom
