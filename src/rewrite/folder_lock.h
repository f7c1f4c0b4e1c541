// One command at a time writes into a folder.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/check.h"

namespace fathom {

// Keeps other commands that write out of the folder while this one runs. What decides what to write is looked up after
// this: before it the folder may change.
class FolderLock {
 public:
  // Makes the folder when it is not there. Throws Error when another command holds it.
  explicit FolderLock(const std::filesystem::path& folder) {
    std::filesystem::create_directories(folder);
    fd_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(fd_ >= 0, "cannot open the folder {}: {}", folder.string(), std::strerror(errno));
    if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
    const int error = errno;
    ::close(fd_);
    CHECK(error != EWOULDBLOCK, "another command is writing into {}; wait for its end", folder.string());
    fail("cannot lock the folder {}: {}", folder.string(), std::strerror(error));
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock() { ::close(fd_); }

 private:
  int fd_ = -1;
};

}  // namespace fathom
