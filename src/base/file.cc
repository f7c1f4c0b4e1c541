#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/mapped_path.h"

namespace fathom {
namespace {

i64 regular_size(int fd, const std::filesystem::path& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) fail_errno("inspect", path);
  if (S_ISDIR(info.st_mode)) fail("cannot read {}: it is a directory", path.string());
  return info.st_size;
}

}  // namespace

void fail_errno(const char* verb, const std::filesystem::path& path) {
  fail("cannot {} {}: {}", verb, path.string(), std::strerror(errno));
}

Descriptor::~Descriptor() {
  if (fd >= 0) ::close(fd);
}

void read_at(int descriptor, const std::filesystem::path& path, i64 offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor, out.data(), out.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno("read", path);
    CHECK(got > 0, "{} became shorter while it was read", path.string());
    out = out.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
}

void sync_folder_of(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const Descriptor directory{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (directory.fd >= 0) ::fsync(directory.fd);
}

std::string read_file(const std::filesystem::path& path, i64 max_bytes) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) fail_errno("open", path);
  const i64 expected = regular_size(file.fd, path);
  CHECK(expected <= max_bytes, "{} has {} bytes; at most {} are read", path.string(), expected, max_bytes);
  std::string text;
  text.reserve(static_cast<std::size_t>(expected));
  char buffer[1 << 16];
  while (true) {
    const ssize_t got = ::read(file.fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno("read", path);
    if (got == 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    CHECK(static_cast<i64>(text.size()) <= max_bytes, "{} has more than {} bytes", path.string(), max_bytes);
  }
}

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) fail_errno("open", path);
  size_ = static_cast<std::size_t>(regular_size(file.fd, path));
  if (size_ == 0) return;
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) fail_errno("map", path);
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void populate(std::span<const std::byte> mapped) {
  if (mapped.empty()) return;
  constexpr int kPopulateRead = 22;  // MADV_POPULATE_READ, which older headers do not have
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(mapped.data()), begin = first / page * page;
  const std::size_t bytes = first + mapped.size() - begin;
  if (::madvise(reinterpret_cast<void*>(begin), bytes, kPopulateRead) == 0) return;
  if (errno != EINVAL) {
    const char* reason = std::strerror(errno);
    char room[4096];
    fail("cannot read {} (has it become shorter?): {}", mapped_path(mapped.data(), room), reason);
  }
  // Linux before 5.14 has no such call: the first byte of each page is read.
  for (std::size_t i = 0; i < bytes; i += page) static_cast<void>(*reinterpret_cast<const volatile char*>(begin + i));
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  temporary_ = path_;
  temporary_ += fmt::format(".partial-{}", ::getpid());
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_errno("create", temporary_);
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(fd_, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_errno("write", temporary_);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail_errno("write", temporary_);
  if (::close(std::exchange(fd_, -1)) != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int reason = errno;
    ::unlink(temporary_.c_str());
    errno = reason;
    fail_errno("finish", path_);
  }
  sync_folder_of(path_);
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace fathom
