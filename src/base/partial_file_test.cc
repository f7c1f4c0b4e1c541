#include "base/partial_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/stage.h"

namespace {

// Where a test made FOLDER.syncs, it gets a line "NAME BYTES" each time that the program asks for FOLDER or a file of
// it to be on the disk.
int sync_and_note(int fd, long call) {
  namespace fs = std::filesystem;
  const fs::path path = fs::read_symlink("/proc/self/fd/" + std::to_string(fd));
  const bool is_folder = fs::is_directory(path);
  fs::path log = is_folder ? path : path.parent_path();
  log += ".syncs";
  if (fs::exists(log))
    std::ofstream(log, std::ios::app) << (is_folder ? "." : path.filename().string()) << ' '
                                      << (is_folder ? 0 : fs::file_size(path)) << '\n';
  return static_cast<int>(::syscall(call, fd));
}

}  // namespace

// This program's own come before those of the C library.
extern "C" int fdatasync(int fd) { return sync_and_note(fd, SYS_fdatasync); }
extern "C" int fsync(int fd) { return sync_and_note(fd, SYS_fsync); }

namespace fathom {
namespace {

namespace fs = std::filesystem;

class PartialFileTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  // `pages` aligned pages of one letter.
  std::span<const std::byte> pages(std::size_t pages, char letter) {
    const std::span<std::byte> room = buffer_.room(pages * kFileAlignment);
    std::memset(room.data(), letter, room.size());
    return room;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename().string());
    return names;
  }

  fs::path folder_ = fs::temp_directory_path() / fmt::format("fathom-partial-test-{}", ::getpid());
  fs::path path_ = folder_ / "file";
  AlignedBuffer buffer_;
};

using Names = std::vector<std::string>;

TEST_F(PartialFileTest, AppearsWholeWithATailOfAnyLength) {
  {
    PartialFile file(path_, 3 * 4096 + 5, false);
    file.write(pages(3, 'a'));
    file.write(pages(1, 'b').first(5));
    EXPECT_FALSE(fs::exists(path_));
    file.commit();
  }
  EXPECT_EQ(names(), Names{"file"});
  EXPECT_EQ(read_file(path_), std::string(3 * 4096, 'a') + "bbbbb");
}

TEST_F(PartialFileTest, WithoutAMarkNothingIsLeft) {
  {
    PartialFile file(path_, 1 << 20, false);
    file.write(pages(2, 'a'));
  }
  EXPECT_EQ(names(), Names{});
}

TEST_F(PartialFileTest, GoesOnAtTheMark) {
  {
    PartialFile file(path_, 1 << 20, false);
    file.write(pages(2, 'a'));
    file.mark();
    file.write(pages(2, 'x'));
  }
  EXPECT_EQ(names(), Names{"file.partial-8192"});
  {
    PartialFile file(path_, 1 << 20, true);
    EXPECT_EQ(file.kept(), 8192);
    std::vector<std::byte> kept(100);
    file.read(8092, kept);
    EXPECT_EQ(kept, std::vector<std::byte>(100, std::byte{'a'}));
    file.seek(4096);
    EXPECT_EQ(names(), Names{"file.partial-4096"});
    file.write(pages(1, 'b'));
    file.commit();
  }
  EXPECT_EQ(names(), Names{"file"});
  EXPECT_EQ(read_file(path_), std::string(4096, 'a') + std::string(4096, 'b'));
}

// A name promises bytes only once they are on the disk: a power cut may come between any two calls.
TEST_F(PartialFileTest, SyncsBeforeTheNameSaysSo) {
  const fs::path log = folder_.string() + ".syncs";
  PartialFile file(path_, 3 * 4096, false);
  file.write(pages(2, 'a'));
  write_file(log, "");
  file.mark();
  EXPECT_EQ(read_file(log), "file.partial-0 8192\n");
  EXPECT_EQ(names(), Names{"file.partial-8192"});
  file.write(pages(1, 'b'));
  write_file(log, "");
  file.commit();
  EXPECT_EQ(read_file(log), "file.partial-8192 12288\n. 0\n");
  fs::remove(log);
}

// A name that promises more than the file holds, and names that are no marks, count for nothing.
TEST_F(PartialFileTest, DistrustsWhatItFinds) {
  write_file(folder_ / "file.partial-9999999", "short");
  write_file(folder_ / "file.partial-4096", std::string(5000, 'a'));
  write_file(folder_ / "file.partial-100", std::string(5000, 'b'));
  write_file(folder_ / "other.partial-4096", "stays");
  EXPECT_EQ(PartialFile(path_, 1 << 20, true).kept(), 4096);
  EXPECT_EQ(read_file(folder_ / "file.partial-4096"), std::string(4096, 'a'));
  EXPECT_EQ(PartialFile(path_, 1 << 20, false).kept(), 0);
  EXPECT_EQ(names(), Names{"other.partial-4096"});
}

TEST_F(PartialFileTest, AFileThatMayNotGrowIsAnError) {
  struct rlimit old {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  struct rlimit small = old;
  small.rlim_cur = 8192;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message;
  try {
    PartialFile file(path_, 3 * 4096, false);
    file.write(pages(2, 'a'));
    file.mark();
    file.write(pages(1, 'a'));
  } catch (const Error& error) {
    message = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(message.find("File too large"), std::string::npos) << message;
  EXPECT_NE(message.find(path_.string()), std::string::npos) << message;
}

TEST(Stage, ItemsInOrderAndErrorsArrive) {
  std::vector<i64> seen;
  Stage stage([&](i64 item) {
    CHECK(item != 3, "item 3");
    seen.push_back(item);
  });
  stage.wait_for(-1);
  for (int i = 0; i < 3; ++i) stage.give();
  stage.wait_for(2);
  EXPECT_EQ(seen, (std::vector<i64>{0, 1, 2}));
  stage.give();
  EXPECT_THROW(stage.wait_for(3), Error);
}

}  // namespace
}  // namespace fathom
