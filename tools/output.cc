#include "tools/output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <utility>

namespace fathom {
namespace {

// Not by stdio, which forgets what it holds when a signal interrupts a write. False with the reason in errno.
bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = ::write(fd, text.data(), text.size());
    if (done >= 0) {
      text.remove_prefix(static_cast<std::size_t>(done));
    } else if (errno == EAGAIN) {  // the other end had it set so
      pollfd ready{fd, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

std::string one_line(std::string message) {
  while (!message.empty() && message.back() == '\n') message.pop_back();
  for (char& c : message)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return message;
}

}  // namespace

void prepare_standard_streams() {
  // The lowest free number is taken, so in this order each gets its own. What is open for reading only refuses writes.
  constexpr int kModes[] = {O_RDONLY, O_RDONLY, O_WRONLY};
  for (int fd = 0; fd < 3; ++fd)
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF) static_cast<void>(::open("/dev/null", kModes[fd]));
  ::signal(SIGPIPE, SIG_IGN);
}

void write_output(std::string_view text) {
  CHECK(write_all(STDOUT_FILENO, text), "cannot write to standard output: {}", std::strerror(errno));
}

OutputBuffer::~OutputBuffer() { static_cast<void>(write_all(STDOUT_FILENO, text_)); }

void OutputBuffer::write(std::string_view text) {
  constexpr std::size_t kEnough = 1 << 16;
  text_ += text;
  if (text_.size() >= kEnough) finish();
}

void OutputBuffer::finish() { write_output(std::exchange(text_, {})); }

void write_note(std::string_view text) { static_cast<void>(write_all(STDERR_FILENO, text)); }

void print_error(const std::string& message) { print_note("fathom: error: {}\n", one_line(message)); }

void print_warning(const std::string& message) { print_note("fathom: warning: {}\n", one_line(message)); }

void print_warnings(const std::vector<std::string>& messages) {
  for (const std::string& message : messages) print_warning(message);
}

}  // namespace fathom
