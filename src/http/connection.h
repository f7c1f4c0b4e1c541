// Connection: one client. Reads a request, sends its answer, meanwhile sees at once when the client leaves; then the
// next. Only for server.cc: it includes Boost, whose headers take seconds to compile.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "http/answer.h"
#include "http/server.h"

namespace fathom::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;
using tcp = asio::ip::tcp;

// What the connections of a server share.
struct Site {
  ServerOptions options;
  Server::Handler handler;
  Server::Refuse refuse;
  std::atomic<int> answering = 0, connections = 0;
};

// Stream: tcp::socket or asio::ssl::stream<tcp::socket>. Everything but Channel runs on the socket's strand.
template <typename Stream>
class Connection final : public Channel, public std::enable_shared_from_this<Connection<Stream>> {
 public:
  // `over` is run when the connection is gone.
  Connection(Stream stream, std::string peer, Site& site, std::function<void()> over)
      : stream_(std::move(stream)),
        timer_(stream_.get_executor()),
        peer_(std::move(peer)),
        site_(site),
        over_(std::move(over)) {
    ++site_.connections;
  }
  ~Connection() override {
    --site_.connections;
    over_();
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Answers everything with status 503 and closes.
  void turn_away() {
    full_ = true;
    start();
  }

  void start() {
    asio::dispatch(stream_.get_executor(), [self = this->shared_from_this()] {
      if constexpr (kSecure) {
        self->deadline(self->site_.options.request_time);
        self->stream_.async_handshake(asio::ssl::stream_base::server, [self](error_code error) {
          error ? self->close() : self->read_head(self->site_.options.request_time);
        });
      } else {
        self->read_head(self->site_.options.request_time);
      }
    });
  }

  void post(std::function<void()> work) override {
    asio::post(stream_.get_executor(), [self = this->shared_from_this(), work = std::move(work)] { work(); });
  }
  void flush() override {
    asio::post(stream_.get_executor(), [self = this->shared_from_this()] { self->send(); });
  }
  void give_up() override {
    asio::post(stream_.get_executor(), [self = this->shared_from_this()] { self->close(); });
  }

 private:
  static constexpr bool kSecure = !std::is_same_v<Stream, tcp::socket>;
  static constexpr std::chrono::seconds kLinger{2};  // for the last bytes before a connection is closed

  void read_head(std::chrono::seconds time) {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(site_.options.max_header_bytes));
    parser_->body_limit(site_.options.max_body_bytes);
    deadline(time);
    beast::http::async_read_header(stream_, buffer_, *parser_,
                                   [self = this->shared_from_this()](error_code error, std::size_t) {
                                     error ? self->refuse(error) : self->read_body();
                                   });
  }

  void read_body() {
    deadline(site_.options.request_time);
    if (full_) return refuse(503, "the server has too many connections");
    if (beast::iequals(parser_->get()[beast::http::field::expect], "100-continue")) {
      static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
      asio::async_write(stream_, asio::buffer(kContinue),
                        [self = this->shared_from_this()](error_code error, std::size_t) {
                          error ? self->close() : self->read_rest();
                        });
    } else {
      read_rest();
    }
  }

  void read_rest() {
    beast::http::async_read(stream_, buffer_, *parser_,
                            [self = this->shared_from_this()](error_code error, std::size_t) {
                              error ? self->refuse(error) : self->ask();
                            });
  }

  // What was read of a request, handed on.
  void ask() {
    begin_answer();
    site_.handler(exchange());
  }

  std::shared_ptr<Exchange> exchange() {
    return make_exchange(answer_, this->shared_from_this(), site_.options.max_waiting_bytes, site_.refuse);
  }

  void begin_answer() {
    auto& message = parser_->get();
    answer_ = std::make_shared<Answer>();
    Request& request = answer_->request;
    request.method = std::string(message.method_string());
    const std::string target(message.target());
    const std::size_t mark = target.find('?');
    request.path = target.substr(0, mark);
    if (mark != std::string::npos) request.query = target.substr(mark + 1);
    for (const auto& field : message) {
      std::string name(field.name_string());
      std::transform(name.begin(), name.end(), name.begin(),
                     [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
      request.headers.emplace_back(std::move(name), std::string(field.value()));
    }
    request.body = std::move(message.body());
    request.peer = peer_;
    answer_->chunked = message.version() >= 11;
    answer_->keep_alive = message.keep_alive();
    answer_->head_only = message.method() == beast::http::verb::head;
    ++site_.answering;
    timer_.cancel();
    watch();
  }

  // While an answer is under way, a read waits: it ends when the client leaves. Not where the next request is there
  // already, which is read in its turn.
  void watch() {
    if (watching_ || buffer_.size() > 0) return;
    watching_ = true;
    stream_.async_read_some(buffer_.prepare(4096),
                            [self = this->shared_from_this()](error_code error, std::size_t bytes) {
                              self->watching_ = false;
                              self->buffer_.commit(bytes);
                              if (error) return self->close();
                              if (self->lingering_) self->buffer_.clear();
                              if (self->answer_ || self->lingering_) {
                                self->watch();
                              } else {
                                self->read_head(self->site_.options.request_time);
                              }
                            });
  }

  void send() {
    if (sending_ || !answer_ || closed_) return;
    flying_ = answer_->take(last_);
    if (flying_.empty()) return last_ ? finish() : void();
    sending_ = true;
    deadline(site_.options.write_time);
    write_some(0);
  }

  // In pieces, so that the time runs without a byte taken, not for the whole.
  void write_some(std::size_t from) {
    stream_.async_write_some(asio::buffer(flying_.data() + from, flying_.size() - from),
                             [self = this->shared_from_this(), from](error_code error, std::size_t bytes) {
                               if (error) return self->close();
                               self->deadline(self->site_.options.write_time);
                               if (from + bytes < self->flying_.size()) return self->write_some(from + bytes);
                               self->sending_ = false;
                               self->timer_.cancel();
                               self->last_ ? self->finish() : self->send();
                             });
  }

  void finish() {
    if (!answer_) return;
    const bool keep = answer_->keep_alive;
    drop_answer();
    if (!keep) return linger();
    if (watching_) {
      deadline(site_.options.idle_time);  // the waiting read becomes the next request's first
    } else {
      read_head(site_.options.idle_time);
    }
  }

  void drop_answer() {
    if (!answer_) return;
    std::function<void()> leave;  // may hold the exchange, whose end takes the lock
    {
      const std::unique_lock lock(answer_->mutex);
      leave = std::exchange(answer_->leave, nullptr);
    }
    answer_.reset();
    --site_.answering;
  }

  // Says that no more comes and waits a little: closing with unread bytes would take the answer from the client.
  void linger() {
    lingering_ = true;
    deadline(kLinger);
    if constexpr (kSecure) {
      stream_.async_shutdown([self = this->shared_from_this()](error_code) { self->close(); });
    } else {
      error_code ignored;
      stream_.shutdown(tcp::socket::shutdown_send, ignored);
      watch();
    }
  }

  // A request that could not be read.
  void refuse(error_code error) {
    using Fault = beast::http::error;
    if (error.category() != make_error_code(Fault::end_of_stream).category() || error == Fault::end_of_stream ||
        error == Fault::partial_message)
      return close();  // the client left, or its time is over
    if (error == Fault::header_limit)
      return refuse(431, fmt::format("the request's head is longer than {} bytes", site_.options.max_header_bytes));
    if (error == Fault::body_limit)
      return refuse(413, fmt::format("the request's body is longer than {} bytes", site_.options.max_body_bytes));
    refuse(400, fmt::format("not an HTTP request: {}", error.message()));
  }

  void refuse(int status, const std::string& message) {
    begin_answer();
    answer_->keep_alive = false;
    exchange()->respond(site_.refuse(answer_->request, status, message));
  }

  void deadline(std::chrono::seconds time) {
    timer_.expires_after(time);
    timer_.async_wait([weak = this->weak_from_this()](error_code error) {
      if (error) return;
      if (const auto self = weak.lock()) self->close();
    });
  }

  void close() {
    if (closed_) return;
    closed_ = true;
    timer_.cancel();
    error_code ignored;
    stream_.lowest_layer().close(ignored);
    if (!answer_) return;
    std::function<void()> leave;
    {
      const std::unique_lock lock(answer_->mutex);
      if (!answer_->ended) answer_->left = true;
      if (!answer_->ended) leave = std::move(answer_->leave);
    }
    drop_answer();
    if (leave) leave();
  }

  Stream stream_;
  asio::steady_timer timer_;
  std::string peer_;
  Site& site_;
  std::function<void()> over_;
  beast::flat_buffer buffer_;
  std::optional<beast::http::request_parser<beast::http::string_body>> parser_;
  std::shared_ptr<Answer> answer_;  // under way
  std::string flying_;              // bytes being sent
  bool sending_ = false, last_ = false, watching_ = false, lingering_ = false, closed_ = false, full_ = false;
};

}  // namespace fathom::http
