#include "server/routes.h"

#include <openssl/crypto.h>

#include <algorithm>

#include "server/openai.h"
#include "server/text_api.h"

namespace fathom {
namespace {

// An exchange whose answers carry more headers and are counted.
class Annotated final : public http::Exchange {
 public:
  Annotated(std::shared_ptr<http::Exchange> inner, http::Headers headers, AnswerCounter& counter, std::string endpoint)
      : inner_(std::move(inner)), headers_(std::move(headers)), counter_(counter), endpoint_(std::move(endpoint)) {}

  const http::Request& request() const override { return inner_->request(); }
  void respond(http::Response response) override { inner_->respond(annotate(std::move(response))); }
  void begin_stream(http::Response head) override { inner_->begin_stream(annotate(std::move(head))); }
  void write(std::string_view data) override { inner_->write(data); }
  void end() override { inner_->end(); }
  void post(std::function<void()> work) override { inner_->post(std::move(work)); }
  void on_leave(std::function<void()> leave) override { inner_->on_leave(std::move(leave)); }

 private:
  http::Response annotate(http::Response response) {
    counter_.count(endpoint_, response.status);
    response.headers.insert(response.headers.end(), headers_.begin(), headers_.end());
    return response;
  }

  std::shared_ptr<http::Exchange> inner_;
  http::Headers headers_;
  AnswerCounter& counter_;
  std::string endpoint_;
};

template <Json (*answer)(const Service&, const Json&)>
void answer_body(Service& service, const std::shared_ptr<http::Exchange>& exchange) {
  exchange->respond(json_response(answer(service, parse_body(exchange->request().body))));
}

void models(Service& service, const std::shared_ptr<http::Exchange>& exchange) {
  exchange->respond(openai_models(service));
}
void info(Service& service, const std::shared_ptr<http::Exchange>& exchange) {
  exchange->respond(json_response(tokenizer_info(service)));
}
void no_embeddings(Service&, const std::shared_ptr<http::Exchange>&) {
  throw ApiError(501, "this server makes text; it has no embeddings");
}

constexpr std::string_view kModel = "/v1/models/";

void one_model(Service& service, const std::shared_ptr<http::Exchange>& exchange) {
  exchange->respond(openai_model(service, exchange->request().path.substr(kModel.size())));
}

// Printable and short, so that a client cannot write into logs or headers.
std::string request_id(const http::Request& request) {
  const std::string_view given = request.header("x-request-id");
  const bool usable = !given.empty() && given.size() <= 128 &&
                      std::all_of(given.begin(), given.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  return usable ? std::string(given) : new_id("req-");
}

bool same(std::string_view a, std::string_view b) {  // in a time that tells nothing of where they differ
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

Routes::Routes(RoutesOptions options)
    : options_(std::move(options)),
      routes_{{"/v1/chat/completions", {"POST", openai_chat}},
              {"/v1/completions", {"POST", openai_completions}},
              {"/v1/models", {"GET", models}},
              {"/v1/embeddings", {"POST", no_embeddings}},
              {"/tokenize", {"POST", answer_body<tokenize>}},
              {"/detokenize", {"POST", answer_body<detokenize>}},
              {"/apply-template", {"POST", answer_body<apply_template>}},
              {"/tokenizer_info", {"GET", info}}} {
  for (const char* path : {"/chat/completions", "/completions", "/models"})  // for clients that leave out the version
    routes_[path] = routes_.at(std::string("/v1") + path);
}

http::Response Routes::refuse(const http::Request&, int status, const std::string& message) const {
  return openai_error(status, message);
}

void Routes::loading(i64 done, i64 total) {
  to_load_ = total;
  loaded_ = done;
}

void Routes::operator()(const std::shared_ptr<http::Exchange>& plain) {
  const http::Request& request = plain->request();
  const bool one = request.path.starts_with(kModel);
  const auto route = routes_.find(request.path);
  const std::string endpoint = one ? "/v1/models" : route != routes_.end() ? route->first : "other";
  http::Headers headers = cors(request);
  headers.emplace_back("X-Request-Id", request_id(request));
  const auto exchange = std::make_shared<Annotated>(plain, std::move(headers), answers_, endpoint);
  if (request.method == "OPTIONS") return exchange->respond({.status = 204, .content_type = ""});
  if (answer_open(request, *exchange)) return;
  if (!allowed(request))
    return exchange->respond(openai_error(401, "a valid key is needed: Authorization: Bearer KEY, or X-Api-Key: KEY"));
  if (request.path == "/metrics") return exchange->respond(metrics());
  if (!one && route == routes_.end())
    return exchange->respond(openai_error(404, fmt::format("there is no '{}' here", request.path)));
  const Route target = one ? Route{"GET", one_model} : route->second;
  if (request.method != target.method && !(request.method == "HEAD" && target.method == std::string_view("GET"))) {
    http::Response wrong = openai_error(405, fmt::format("'{}' takes {}", request.path, target.method));
    wrong.headers.emplace_back("Allow", target.method);
    return exchange->respond(std::move(wrong));
  }
  Service* service = service_;
  if (service == nullptr || draining_)
    return exchange->respond(
        openai_error(503, draining_ ? "the server is ending" : "the model is being loaded; try again later"));
  const auto work = [this, exchange, service, target] { answer_with(exchange, *service, target.task); };
  if (!service->preparation().push(work))
    exchange->respond(openai_error(429, "too many requests wait to be prepared; try again later"));
}

void Routes::answer_with(const std::shared_ptr<http::Exchange>& exchange, Service& service, Task task) {
  try {
    task(service, exchange);
  } catch (const ApiError& error) {
    exchange->respond(openai_error(error.status, error.what(), error.param));
  } catch (const std::exception& error) {
    exchange->respond(openai_error(500, error.what()));
  }
}

// What is answered without a key, and before the model is there.
bool Routes::answer_open(const http::Request& request, http::Exchange& exchange) {
  if (request.path == "/health") {
    exchange.respond(json_response({{"status", draining_ ? "ending" : "ok"}}, draining_ ? 503 : 200));
  } else if (request.path == "/ready") {
    exchange.respond(readiness());
  } else if (request.path == "/version") {
    exchange.respond(json_response({{"version", options_.version}}));
  } else if (request.path == "/metrics" && !options_.metrics_need_key) {
    exchange.respond(metrics());
  } else {
    return false;
  }
  return true;
}

http::Response Routes::readiness() const {
  if (draining_) return json_response({{"status", "ending"}}, 503);
  if (service_ != nullptr) return json_response({{"status", "ready"}});
  const i64 total = to_load_;
  const double part = total > 0 ? static_cast<double>(loaded_) / static_cast<double>(total) : 0;
  return json_response({{"status", "loading"}, {"progress", part}}, 503);
}

http::Response Routes::metrics() const {
  Service* service = service_;
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
          .body = metrics_text(service == nullptr ? EngineStats{} : service->engine().stats(), answers_)};
}

bool Routes::allowed(const http::Request& request) const {
  if (options_.keys.empty()) return true;
  constexpr std::string_view kBearer = "bearer ";
  std::string_view given = request.header("authorization");
  const auto is_bearer = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
  if (given.size() > kBearer.size() &&
      std::equal(kBearer.begin(), kBearer.end(), given.begin(), [&](char b, char a) { return is_bearer(a, b); })) {
    given.remove_prefix(kBearer.size());
  } else {
    given = request.header("x-api-key");
  }
  bool good = false;
  for (const std::string& key : options_.keys) good |= same(given, key);
  return good;
}

http::Headers Routes::cors(const http::Request& request) const {
  const std::string origin(request.header("origin"));
  const auto& known = options_.cors_origins;
  const bool all = std::find(known.begin(), known.end(), "*") != known.end();
  if (origin.empty() || (!all && std::find(known.begin(), known.end(), origin) == known.end())) return {};
  http::Headers headers{{"Access-Control-Allow-Origin", origin}, {"Vary", "Origin"}};
  if (request.method != "OPTIONS") return headers;
  const std::string wanted(request.header("access-control-request-headers"));
  headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
  headers.emplace_back("Access-Control-Allow-Headers", wanted.empty() ? "*" : wanted);
  headers.emplace_back("Access-Control-Max-Age", "86400");
  return headers;
}

}  // namespace fathom
