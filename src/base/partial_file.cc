#include "base/partial_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".partial-";

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : "."; }

// The number behind ".partial-" of a file of this name; -1 for other files.
i64 marked_bytes(const std::string& file, const std::string& name) {
  if (!file.starts_with(name + std::string(kMark))) return -1;
  const std::string_view digits = std::string_view(file).substr(name.size() + kMark.size());
  i64 bytes = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bytes);
  return error == std::errc{} && end == digits.data() + digits.size() ? bytes : -1;
}

bool is_aligned(std::span<const std::byte> bytes) {
  return (reinterpret_cast<std::uintptr_t>(bytes.data()) | bytes.size()) % kFileAlignment == 0;
}

}  // namespace

std::span<std::byte> AlignedBuffer::room(std::size_t bytes) {
  if (bytes > size_) {
    size_ = (bytes + kFileAlignment - 1) / kFileAlignment * kFileAlignment;
    data_.reset();
    data_.reset(static_cast<std::byte*>(::operator new(size_, std::align_val_t(kFileAlignment))));
  }
  return {data_.get(), bytes};
}

PartialFile::PartialFile(fs::path path, i64 bytes, bool resume) : path_(std::move(path)) {
  adopt(resume);
  if (fd_ < 0) {
    temporary_ = marked_path(0);
    fd_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  }
  if (fd_ < 0) fail_errno("create", temporary_);
  const int flags = ::fcntl(fd_, F_GETFL);
  direct_ = flags >= 0 && ::fcntl(fd_, F_SETFL, flags | O_DIRECT) == 0;
  // Not every file system can reserve; one that is full says so now instead of hours later.
  if (bytes > 0 && ::fallocate(fd_, FALLOC_FL_KEEP_SIZE, 0, bytes) != 0 &&
      (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
    const std::string reason = std::strerror(errno);
    if (marked_ == 0) ::unlink(temporary_.c_str());
    ::close(std::exchange(fd_, -1));
    fail("cannot reserve {} bytes for {}: {}", bytes, path_.string(), reason);
  }
}

PartialFile::~PartialFile() {
  if (fd_ < 0) return;
  // Also gives back what was reserved beyond. When it fails the name still says what counts.
  [[maybe_unused]] const int unused = ::ftruncate(fd_, marked_);
  ::close(fd_);
  if (marked_ == 0) ::unlink(temporary_.c_str());
}

fs::path PartialFile::marked_path(i64 bytes) const {
  fs::path path = path_;
  path += fmt::format("{}{}", kMark, bytes);
  return path;
}

void PartialFile::adopt(bool resume) {
  const std::string name = path_.filename().string();
  std::vector<fs::path> others;
  for (const auto& entry : fs::directory_iterator(folder_of(path_))) {
    const std::string file = entry.path().filename().string();
    const i64 bytes = marked_bytes(file, name);
    if (bytes < 0 || !entry.is_regular_file()) continue;
    if (resume && bytes > marked_ && static_cast<i64>(entry.file_size()) >= bytes) {
      marked_ = bytes;
      std::swap(temporary_, others.emplace_back());
      temporary_ = entry.path();
    } else {
      others.push_back(entry.path());
    }
  }
  for (const fs::path& other : others)
    if (!other.empty()) ::unlink(other.c_str());
  if (marked_ == 0) return;
  fd_ = ::open(temporary_.c_str(), O_RDWR | O_CLOEXEC);
  if (fd_ < 0) fail_errno("open", temporary_);
  written_ = marked_;
}

void PartialFile::read(i64 offset, std::span<std::byte> out) const {
  CHECK(offset + static_cast<i64>(out.size()) <= marked_, "{} holds {} bytes", temporary_.string(), marked_);
  const Descriptor file{::open(temporary_.c_str(), O_RDONLY | O_CLOEXEC)};  // the other one asks for aligned memory
  if (file.fd < 0) fail_errno("open", temporary_);
  read_at(file.fd, temporary_, offset, out);
}

void PartialFile::seek(i64 offset) {
  CHECK(offset <= marked_, "cannot go on at {} of {}", offset, temporary_.string());
  if (offset < marked_) {
    const fs::path shorter = marked_path(offset);  // the promise first, then the bytes
    if (::rename(temporary_.c_str(), shorter.c_str()) != 0) fail_errno("rename", temporary_);
    temporary_ = shorter;
  }
  marked_ = written_ = offset;
}

void PartialFile::go_through_cache() {
  ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) & ~O_DIRECT);
  direct_ = false;
}

void PartialFile::write(std::span<const std::byte> bytes) {
  if (direct_ && (!is_aligned(bytes) || written_ % static_cast<i64>(kFileAlignment) != 0)) go_through_cache();
  const i64 start = written_;
  while (!bytes.empty()) {
    const ssize_t done = ::pwrite(fd_, bytes.data(), bytes.size(), written_);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0 && errno == EINVAL && direct_) {
      go_through_cache();
      continue;
    }
    if (done < 0) fail("cannot write {}: {}", path_.string(), std::strerror(errno));
    written_ += done;
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    if (direct_ && done % static_cast<ssize_t>(kFileAlignment) != 0) go_through_cache();
  }
  // The disk begins now; left alone the system waits until gigabytes have gathered.
  if (!direct_) ::sync_file_range(fd_, start, written_ - start, SYNC_FILE_RANGE_WRITE);
}

void PartialFile::mark() {
  if (::fdatasync(fd_) != 0) fail_errno("write", path_);
  const fs::path longer = marked_path(written_);
  if (longer == temporary_) return;
  if (::rename(temporary_.c_str(), longer.c_str()) != 0) fail_errno("rename", temporary_);
  temporary_ = longer;
  marked_ = written_;
}

void PartialFile::commit() {
  if (::ftruncate(fd_, written_) != 0 || ::fsync(fd_) != 0) fail_errno("write", path_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_errno("finish", path_);
  ::close(std::exchange(fd_, -1));
  sync_folder_of(path_);
}

}  // namespace fathom
