#include "server/openai.h"

#include <algorithm>
#include <random>

namespace fathom {
namespace {

Json describe(const Service& service, const std::string& name) {
  return {{"id", name},
          {"object", "model"},
          {"created", static_cast<i64>(service.created())},
          {"owned_by", "fathom"},
          {"max_model_len", service.max_seq_len()}};
}

std::string_view error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

}  // namespace

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

http::Response json_response(const Json& body, int status) { return {.status = status, .body = dump(body)}; }

http::Response openai_error(int status, const std::string& message, const std::string& param) {
  Json error{{"message", message}, {"type", error_type(status)}, {"param", nullptr}, {"code", status}};
  if (!param.empty()) error["param"] = param;
  http::Response response = json_response({{"error", error}}, status);
  if (status == 429) response.headers.emplace_back("Retry-After", "1");
  if (status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

http::Response openai_models(const Service& service) {
  Json list = Json::array();
  for (const std::string& name : service.options().names) list.push_back(describe(service, name));
  return json_response({{"object", "list"}, {"data", list}});
}

http::Response openai_model(const Service& service, const std::string& name) {
  check_model(Fields(Json{{"model", name}}), service);
  return json_response(describe(service, name));
}

void check_model(const Fields& fields, const Service& service) {
  const std::string name = fields.text("model", service.name());
  const auto& names = service.options().names;
  if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) return;
  throw ApiError(
      404, fmt::format("The model '{}' does not exist; this server has '{}'", name, fmt::join(names, "', '")), "model");
}

std::string new_id(const std::string& prefix) {
  std::random_device device;
  return fmt::format("{}{:08x}{:08x}{:08x}", prefix, device(), device(), device());
}

}  // namespace fathom
