// The server by itself, with handlers that do what a model's would not.
#include "http/server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/check.h"

namespace fathom::http {
namespace {

// A client's end of a connection.
class Client {
 public:
  explicit Client(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    timeval time{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    CHECK(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "cannot connect");
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(std::string_view bytes) const { ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  // What comes until `end` has come or the server closes.
  std::string read_until(std::string_view end) const {
    std::string text;
    while (text.find(end) == std::string::npos) {
      char buffer[4096];
      const auto bytes = ::recv(socket_, buffer, sizeof buffer, 0);
      if (bytes <= 0) break;
      text.append(buffer, static_cast<std::size_t>(bytes));
    }
    return text;
  }
  std::string read_all() const { return read_until("\nnothing holds this\n"); }

 private:
  int socket_;
};

// Something that happens on another thread.
class Signal {
 public:
  void set() {
    const std::unique_lock lock(mutex_);
    set_ = true;
    wake_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return wake_.wait_for(lock, std::chrono::seconds(20), [this] { return set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool set_ = false;
};

Response refuse(const Request&, int status, const std::string& message) { return {.status = status, .body = message}; }

ServerOptions options() { return {.port = 0, .threads = 2}; }

constexpr std::string_view kGet = "GET /a?b=c HTTP/1.1\r\nX-Name: Value\r\n\r\n";

TEST(Server, HandsOnWhatWasSent) {
  Server server(
      options(),
      [](const std::shared_ptr<Exchange>& exchange) {
        const Request& request = exchange->request();
        exchange->respond(
            {.body = fmt::format("{} {} {} {} {} {}", request.method, request.path, request.query,
                                 request.header("x-name"), request.header("absent").size(), request.peer)});
      },
      refuse);
  const Client client(server.port());
  client.send(kGet);
  EXPECT_TRUE(client.read_until("127.0.0.1").ends_with("\r\n\r\nGET /a b=c Value 0 127.0.0.1"));
}

TEST(Server, StreamsFromAnotherThread) {
  std::thread writer;
  Server server(
      options(),
      [&](const std::shared_ptr<Exchange>& exchange) {
        writer = std::thread([exchange] {
          exchange->begin_stream({.content_type = "text/plain"});
          for (int n = 0; n < 1000; ++n) exchange->write(fmt::format("{},", n));
          exchange->end();
        });
      },
      refuse);
  const Client client(server.port());
  client.send(kGet);
  const std::string answer = client.read_until("0\r\n\r\n");
  writer.join();
  std::string text, expected;
  for (std::size_t at = answer.find("\r\n\r\n") + 4; at < answer.size();) {
    const std::size_t line = answer.find("\r\n", at);
    const auto size = std::stoul(answer.substr(at, line - at), nullptr, 16);
    text += answer.substr(line + 2, size);
    at = line + 2 + size + 2;
  }
  for (int n = 0; n < 1000; ++n) expected += fmt::format("{},", n);
  EXPECT_EQ(text, expected);
}

TEST(Server, AnswersWhatAHandlerDrops) {
  Server server(
      options(), [](const std::shared_ptr<Exchange>&) {}, refuse);
  const Client client(server.port());
  client.send(kGet);
  EXPECT_NE(client.read_until("without an answer").find("HTTP/1.1 500 "), std::string::npos);
}

TEST(Server, AStreamThatIsDroppedDoesNotLookWhole) {
  Server server(
      options(),
      [](const std::shared_ptr<Exchange>& exchange) {
        exchange->begin_stream({});
        exchange->write("half");
      },
      refuse);
  const Client client(server.port());
  client.send(kGet);
  EXPECT_EQ(client.read_all().find("0\r\n\r\n"), std::string::npos);
}

TEST(Server, ClientsThatLeaveAreSeen) {
  Signal asked, left;
  Server server(
      options(),
      [&](const std::shared_ptr<Exchange>& exchange) {
        exchange->on_leave([&left, exchange] { left.set(); });
        asked.set();
      },
      refuse);
  {
    const Client client(server.port());
    client.send(kGet);
    ASSERT_TRUE(asked.wait());
    EXPECT_EQ(server.answering(), 1);
  }
  EXPECT_TRUE(left.wait());
  EXPECT_EQ(server.answering(), 0);
}

TEST(Server, AClientThatDoesNotReadIsLetGo) {
  Signal left;
  ServerOptions small = options();
  small.max_waiting_bytes = 1 << 16;
  std::thread writer;
  Server server(
      small,
      [&](const std::shared_ptr<Exchange>& exchange) {
        std::atomic<bool>* over = new std::atomic<bool>(false);
        exchange->on_leave([&left, over] {
          *over = true;
          left.set();
        });
        writer = std::thread([exchange, over] {
          exchange->begin_stream({});
          const std::string block(1 << 15, 'x');
          while (!*over) exchange->write(block);
          delete over;
        });
      },
      refuse);
  const Client client(server.port());
  client.send(kGet);
  EXPECT_TRUE(left.wait());
  writer.join();
}

TEST(Server, TimeRunsOut) {
  ServerOptions quick = options();
  quick.request_time = quick.idle_time = std::chrono::seconds(1);
  Server server(
      quick, [](const std::shared_ptr<Exchange>& exchange) { exchange->respond({}); }, refuse);
  const Client slow(server.port()), idle(server.port());
  slow.send("GET / HTT");
  idle.send(kGet);
  EXPECT_EQ(slow.read_all(), "");
  EXPECT_EQ(idle.read_all().substr(0, 15), "HTTP/1.1 200 OK");  // then closed
  for (int n = 0; n < 1000 && server.connections() > 0; ++n) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(server.connections(), 0);
}

TEST(Server, ConnectionsAreCounted) {
  ServerOptions few = options();
  few.max_connections_per_client = 2;
  Server server(
      few, [](const std::shared_ptr<Exchange>& exchange) { exchange->respond({.body = "good"}); }, refuse);
  const Client first(server.port()), second(server.port());
  for (const Client* client : {&first, &second}) {
    client->send(kGet);
    EXPECT_NE(client->read_until("good").find("good"), std::string::npos);
  }
  const Client third(server.port());
  third.send(kGet);
  EXPECT_EQ(third.read_all().substr(0, 13), "HTTP/1.1 503 ");
}

TEST(Server, RefusesPlacesThatItCannotHave) {
  Server server(
      options(), [](const std::shared_ptr<Exchange>&) {}, refuse);
  ServerOptions taken = options();
  taken.port = server.port();
  EXPECT_THROW(Server(
                   taken, [](const std::shared_ptr<Exchange>&) {}, refuse),
               Error);
}

}  // namespace
}  // namespace fathom::http
