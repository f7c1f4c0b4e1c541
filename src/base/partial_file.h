// A large file written beside its final name, past the page cache where the file system allows it, that an interrupted
// process leaves in a state from which the next one goes on.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <new>
#include <span>

#include "base/check.h"

namespace fathom {

// Memory and sizes that may go past the page cache are multiples of this.
inline constexpr std::size_t kFileAlignment = 4096;

// Bytes at an aligned address, not initialised. Growing forgets what they held.
class AlignedBuffer {
 public:
  std::span<std::byte> room(std::size_t bytes);

 private:
  struct Delete {
    void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t(kFileAlignment)); }
  };
  std::unique_ptr<std::byte, Delete> data_;
  std::size_t size_ = 0;
};

// While it is written the file is called "NAME.partial-N", where N bytes are known to be on the disk. One process at a
// time may write a name. Without commit() the destructor keeps those N bytes, and removes the file when N is 0.
class PartialFile {
 public:
  // Reserves `bytes`, the final size, on the disk where the file system can. With `resume` it goes on with what an
  // earlier process left of this name, else removes that.
  PartialFile(std::filesystem::path path, i64 bytes, bool resume);
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;
  ~PartialFile();

  // Bytes of an earlier process that are known to be on the disk.
  i64 kept() const { return marked_; }
  // Reads bytes that were kept.
  void read(i64 offset, std::span<std::byte> out) const;
  // Goes on writing at `offset`, not behind kept(), and forgets what lies beyond.
  void seek(i64 offset);
  // Appends. Goes past the page cache while address and length are multiples of kFileAlignment.
  void write(std::span<const std::byte> bytes);
  // All that was written is on the disk from here on, and the name says so.
  void mark();
  // Gives the file its name, after sync of file and folder.
  void commit();

 private:
  std::filesystem::path marked_path(i64 bytes) const;
  // Opens the longest usable file of an earlier process, if wanted; the others are removed.
  void adopt(bool resume);
  void go_through_cache();

  std::filesystem::path path_, temporary_;
  int fd_ = -1;
  bool direct_ = false;
  i64 written_ = 0, marked_ = 0;
};

}  // namespace fathom
