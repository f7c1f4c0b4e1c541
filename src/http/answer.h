// Answer: what a handler's Exchange and its connection share about one answer, and the bytes that it becomes.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "http/server.h"

namespace fathom::http {

struct Answer {
  Request request;
  bool chunked = true;  // the client knows chunked bodies (HTTP/1.1)
  bool head_only = false;

  std::mutex mutex;        // of all below
  bool keep_alive = true;  // the connection serves another request afterwards
  std::string ready;       // bytes to be sent as they are: the head, then a whole body
  std::string waiting;     // stream data to be sent after them, not framed yet
  bool begun = false, streaming = false, ended = false, left = false;
  std::function<void()> leave;

  // Takes what can be sent now, framed; empty when there is nothing. `last`: nothing follows. Without the lock.
  std::string take(bool& last);
};

// The part of a connection that an Exchange calls; from any thread.
class Channel {
 public:
  virtual ~Channel() = default;
  virtual void post(std::function<void()> work) = 0;
  virtual void flush() = 0;    // the answer has more to send
  virtual void give_up() = 0;  // the client is let go
};

// The handle of a handler.
std::shared_ptr<Exchange> make_exchange(std::shared_ptr<Answer> answer, std::shared_ptr<Channel> channel,
                                        std::size_t max_waiting, Server::Refuse refuse);

}  // namespace fathom::http
