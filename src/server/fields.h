// Fields: typed reading of the fields of a request's body. What has the wrong type or range is refused by name; what is
// absent or null has the default.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api_error.h"

namespace fathom {

using Json = nlohmann::ordered_json;

// The JSON object that a body holds. Throws ApiError with status 400 for anything else, and for values nested too deep.
Json parse_body(std::string_view body);

class Fields {
 public:
  // `path` is put before the names in messages, such as "messages[0].".
  explicit Fields(const Json& object, std::string path = {});

  bool has(const char* name) const { return find(name) != nullptr; }
  // Null where absent or null.
  const Json* find(const char* name) const;
  const Json& required(const char* name) const;

  bool boolean(const char* name, bool absent) const;
  i64 integer(const char* name, i64 absent, i64 least, i64 most) const;
  double number(const char* name, double absent, double least, double most) const;
  std::string text(const char* name, const std::string& absent) const;
  // One text or a list of up to `most`.
  std::vector<std::string> texts(const char* name, std::size_t most) const;
  const Json* object(const char* name) const;
  const Json* array(const char* name) const;

  // Refuses a value: "'temperature' must be ..., not ...".
  [[noreturn]] void refuse(const char* name, const std::string& rule, const Json& value) const;
  std::string name_of(const char* name) const { return path_ + name; }

 private:
  const Json& object_;
  std::string path_;
};

}  // namespace fathom
