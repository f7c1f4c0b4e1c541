// Files: whole reads, read-only maps, and writes that are complete or absent.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/check.h"

namespace fathom {

// The whole file as bytes. Throws Error naming the path and the system's reason; `max_bytes` bounds what is read.
std::string read_file(const std::filesystem::path& path, i64 max_bytes = i64{1} << 32);

// Closes a descriptor at scope end, if it is one.
struct Descriptor {
  int fd;
  ~Descriptor();
};

// Fills `out` from `offset` of an open file, past any map. Throws Error naming `path`, also when the file ends before.
void read_at(int descriptor, const std::filesystem::path& path, i64 offset, std::span<std::byte> out);

// Brings the folder's entry of `path` to the disk, after a rename.
void sync_folder_of(const std::filesystem::path& path);

// "cannot VERB PATH: the system's reason", from errno.
[[noreturn]] void fail_errno(const char* verb, const std::filesystem::path& path);

// A read-only map of a file. Move-only; the bytes live as long as the object.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Brings bytes of a map into memory. Throws Error naming the file when they cannot be read, as when it has become
// shorter.
void populate(std::span<const std::byte> mapped);

// A file written beside its final name and renamed by commit(), after fsync of file and folder.
// Without commit() the destructor removes what was written: nothing half-written is left.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  void commit();

 private:
  std::filesystem::path path_, temporary_;
  int fd_ = -1;
};

// Writes `text` to `path` through AtomicFile.
void write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace fathom
