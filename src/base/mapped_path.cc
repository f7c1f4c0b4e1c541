#include "base/mapped_path.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>

namespace fathom {
namespace {

// Reads lines of /proc/self/maps, "BEGIN-END rights offset device inode   /PATH", a character at a time.
class MapsReader {
 public:
  MapsReader(const void* address, std::span<char> room)
      : address_(reinterpret_cast<std::uintptr_t>(address)), room_(room) {}

  // True at the end of the line that has the path.
  bool take(char c) {
    if (c == '\n') {
      if (length_ > 0) return true;
      begin_ = end_ = 0;
      field_ = Field::begin;
    } else if (field_ == Field::begin) {
      c == '-' ? void(field_ = Field::end) : add_digit(begin_, c);
    } else if (field_ == Field::end) {
      c == ' ' ? void(field_ = Field::rest) : add_digit(end_, c);
    } else if (begin_ <= address_ && address_ < end_ && (length_ > 0 || c == '/') && length_ < room_.size()) {
      room_[length_++] = c;
    }
    return false;
  }

  std::string_view path() const { return {room_.data(), length_}; }

 private:
  enum class Field { begin, end, rest };

  static void add_digit(std::uintptr_t& number, char c) {
    number = number * 16 + static_cast<std::uintptr_t>(c <= '9' ? c - '0' : c - 'a' + 10);
  }

  std::uintptr_t address_, begin_ = 0, end_ = 0;
  std::span<char> room_;
  std::size_t length_ = 0;
  Field field_ = Field::begin;
};

}  // namespace

std::string_view mapped_path(const void* address, std::span<char> room) {
  const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (maps < 0) return {};
  MapsReader reader(address, room);
  char buffer[4096];
  for (ssize_t got; (got = ::read(maps, buffer, sizeof buffer)) > 0;)
    for (ssize_t i = 0; i < got; ++i)
      if (reader.take(buffer[i])) {
        ::close(maps);
        return reader.path();
      }
  ::close(maps);
  return {};
}

}  // namespace fathom
