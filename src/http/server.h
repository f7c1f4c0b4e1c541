// An HTTP/1.1 server: requests in, answers or streams out, over TCP or TLS. Knows no model and has no thread a
// connection.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fathom::http {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Request {
  std::string method;
  std::string path;      // of the target, as it was sent, without what follows a question mark
  std::string query;     // what follows it
  Headers headers = {};  // names in lower case
  std::string body = {};
  std::string peer = {};  // the client's address

  // The first header of this name (in lower case); empty without one.
  std::string_view header(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  Headers headers = {};  // besides Content-Type, Content-Length, Connection, Date and Transfer-Encoding
};

// One request and its answer, which is given once: respond(), or begin_stream(), any number of write(), end(). May be
// called from any thread. An exchange that is dropped without an answer is answered with status 500; a stream that is
// dropped before its end breaks the connection, so that the client does not take it for whole.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const Request& request() const = 0;
  virtual void respond(Response response) = 0;
  // `head` has no body.
  virtual void begin_stream(Response head) = 0;
  // Data that waits is sent together. A client that lets more wait than ServerOptions::max_waiting_bytes is let go.
  virtual void write(std::string_view data) = 0;
  virtual void end() = 0;

  // Runs on a network thread, after what was posted before and never beside it; must not block.
  virtual void post(std::function<void()> work) = 0;
  // Called once, like what is posted, when the client leaves before it was answered.
  virtual void on_leave(std::function<void()> leave) = 0;
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8000;                                       // 0: one that is free
  std::string tls_certificate = {}, tls_key = {};        // PEM files; both or none
  int threads = 1;                                       // for the network
  std::size_t max_header_bytes = std::size_t{64} << 10;  // of a request
  std::size_t max_body_bytes = std::size_t{32} << 20;    // of a request
  std::size_t max_waiting_bytes = std::size_t{4} << 20;  // of a stream that its client does not read
  int max_connections = 20000;                           // more are answered with status 503
  int max_connections_per_client = 0;                    // of one address; 0: no limit
  std::chrono::seconds request_time{60};                 // for sending head, and again for the body
  std::chrono::seconds idle_time{75};                    // between two requests
  std::chrono::seconds write_time{60};                   // without a byte taken by the client
};

class Server {
 public:
  // Gets each request on a network thread; must not block.
  using Handler = std::function<void(std::shared_ptr<Exchange>)>;
  // The answer to a request that the server itself refuses (400, 408, 413, 431, 500, 503); of the request only what was
  // read.
  using Refuse = std::function<Response(const Request& request, int status, const std::string& message)>;

  // Listens and begins to serve. Throws Error when it cannot.
  Server(const ServerOptions& options, Handler handler, Refuse refuse);
  // Breaks all connections. No exchange may outlive the server.
  ~Server();

  // Ends the network's threads: nothing is heard or sent any more.
  void stop();

  int port() const;
  // Connections with a request that is not answered.
  int answering() const;
  int connections() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fathom::http
