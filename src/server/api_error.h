// ApiError: a request that is refused, with the status of its answer. Each dialect writes it in its own shape.
#pragma once

#include <string>
#include <utility>

#include "base/check.h"

namespace fathom {

class ApiError : public Error {
 public:
  // `param` names the field at fault, where there is one.
  ApiError(int status, const std::string& message, std::string param = {})
      : Error(message), status(status), param(std::move(param)) {}

  int status;
  std::string param;
};

}  // namespace fathom
