// OpenAI's dialect: what its requests become, and the shape of its answers and errors.
#pragma once

#include <memory>

#include "http/server.h"
#include "server/fields.h"
#include "server/service.h"

namespace fathom {

// Each is called on a thread of preparation and throws ApiError for a request that is refused.
void openai_chat(Service& service, const std::shared_ptr<http::Exchange>& exchange);
void openai_completions(Service& service, const std::shared_ptr<http::Exchange>& exchange);

http::Response openai_models(const Service& service);
// One model; ApiError with status 404 when it has another name.
http::Response openai_model(const Service& service, const std::string& name);

http::Response openai_error(int status, const std::string& message, const std::string& param = {});
http::Response json_response(const Json& body, int status = 200);
std::string dump(const Json& json);

// Throws ApiError with status 404 when a request names another model than this one.
void check_model(const Fields& fields, const Service& service);

// A random id, such as "chatcmpl-" and 24 hexadecimal digits.
std::string new_id(const std::string& prefix);

}  // namespace fathom
