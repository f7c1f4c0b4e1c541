#include "http/answer.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace fathom::http {
namespace {

std::string_view reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    default:
      return "";  // the phrase may be empty
  }
}

std::string head_of(const Response& response, const Answer& answer, bool stream) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\nDate: {:%a, %d %b %Y %H:%M:%S GMT}\r\n", response.status,
                                 reason_of(response.status),
                                 fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
  if (!response.content_type.empty()) head += fmt::format("Content-Type: {}\r\n", response.content_type);
  for (const auto& [name, value] : response.headers) head += fmt::format("{}: {}\r\n", name, value);
  if (stream) {
    if (answer.chunked) head += "Transfer-Encoding: chunked\r\n";
  } else if (response.status != 204) {
    head += fmt::format("Content-Length: {}\r\n", response.body.size());
  }
  return head + (answer.keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n");
}

class Handle final : public Exchange {
 public:
  Handle(std::shared_ptr<Answer> answer, std::shared_ptr<Channel> channel, std::size_t max_waiting,
         Server::Refuse refuse)
      : answer_(std::move(answer)),
        channel_(std::move(channel)),
        max_waiting_(max_waiting),
        refuse_(std::move(refuse)) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  ~Handle() override {
    const std::unique_lock lock(answer_->mutex);
    if (answer_->ended || answer_->left) return;
    if (answer_->begun) {
      channel_->give_up();
    } else {
      put(refuse_(answer_->request, 500, "the request was dropped without an answer"));
    }
  }

  const Request& request() const override { return answer_->request; }

  void respond(Response response) override {
    const std::unique_lock lock(answer_->mutex);
    if (!answer_->begun) put(response);
  }

  void begin_stream(Response head) override {
    const std::unique_lock lock(answer_->mutex);
    if (answer_->begun) return;
    answer_->begun = answer_->streaming = true;
    if (!answer_->chunked) answer_->keep_alive = false;  // the end of the connection ends the stream
    answer_->ready = head_of(head, *answer_, true);
    channel_->flush();
  }

  void write(std::string_view data) override {
    const std::unique_lock lock(answer_->mutex);
    if (!answer_->streaming || answer_->ended || answer_->left || answer_->head_only || data.empty()) return;
    const bool flushing = !answer_->waiting.empty();
    answer_->waiting += data;
    if (answer_->waiting.size() > max_waiting_) {
      channel_->give_up();
    } else if (!flushing) {
      channel_->flush();
    }
  }

  void end() override {
    const std::unique_lock lock(answer_->mutex);
    if (!answer_->streaming || answer_->ended) return;
    answer_->ended = true;
    channel_->flush();
  }

  void post(std::function<void()> work) override { channel_->post(std::move(work)); }

  void on_leave(std::function<void()> leave) override {
    const std::unique_lock lock(answer_->mutex);
    if (answer_->left) {
      channel_->post(std::move(leave));
    } else if (!answer_->ended) {
      answer_->leave = std::move(leave);
    }
  }

 private:
  void put(const Response& response) {
    answer_->begun = answer_->ended = true;
    answer_->ready = head_of(response, *answer_, false);
    if (!answer_->head_only) answer_->ready += response.body;
    channel_->flush();
  }

  std::shared_ptr<Answer> answer_;
  std::shared_ptr<Channel> channel_;
  std::size_t max_waiting_;
  Server::Refuse refuse_;
};

}  // namespace

std::string Answer::take(bool& last) {
  const std::unique_lock lock(mutex);
  std::string bytes = std::exchange(ready, {});
  if (!waiting.empty()) {
    bytes += chunked ? fmt::format("{:x}\r\n{}\r\n", waiting.size(), waiting) : waiting;
    waiting.clear();
  }
  last = ended;
  if (ended && streaming && chunked && !head_only) bytes += "0\r\n\r\n";
  return bytes;
}

std::shared_ptr<Exchange> make_exchange(std::shared_ptr<Answer> answer, std::shared_ptr<Channel> channel,
                                        std::size_t max_waiting, Server::Refuse refuse) {
  return std::make_shared<Handle>(std::move(answer), std::move(channel), max_waiting, std::move(refuse));
}

}  // namespace fathom::http
