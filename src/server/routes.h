// Routes: which request goes where, who may ask, and what is answered while the model is loaded or the server ends.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "http/server.h"
#include "server/metrics.h"
#include "server/service.h"

namespace fathom {

struct RoutesOptions {
  std::vector<std::string> keys;          // any of them is asked for; empty: nobody is asked
  std::vector<std::string> cors_origins;  // "*" for all
  bool metrics_need_key = true;           // where there are keys
  std::string version;
};

class Routes {
 public:
  explicit Routes(RoutesOptions options);

  // Answers a request or hands it on; never blocks.
  void operator()(const std::shared_ptr<http::Exchange>& exchange);
  http::Response refuse(const http::Request& request, int status, const std::string& message) const;

  // The model is loaded; the service outlives the routes' use.
  void serve(Service& service) { service_ = &service; }
  void loading(i64 done, i64 total);
  // From now on requests that need the model get status 503.
  void drain() { draining_ = true; }

 private:
  using Task = void (*)(Service&, const std::shared_ptr<http::Exchange>&);
  struct Route {
    const char* method;
    Task task;
  };

  bool answer_open(const http::Request& request, http::Exchange& exchange);
  http::Response metrics() const;
  http::Response readiness() const;
  bool allowed(const http::Request& request) const;
  http::Headers cors(const http::Request& request) const;
  void answer_with(const std::shared_ptr<http::Exchange>& exchange, Service& service, Task task);

  RoutesOptions options_;
  std::map<std::string, Route, std::less<>> routes_;
  AnswerCounter answers_;
  std::atomic<Service*> service_ = nullptr;
  std::atomic<i64> loaded_ = 0, to_load_ = 0;  // bytes
  std::atomic<bool> draining_ = false;
};

}  // namespace fathom
