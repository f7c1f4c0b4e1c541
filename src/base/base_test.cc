#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <filesystem>

#include "base/file.h"
#include "base/hash.h"
#include "base/mapped_path.h"
#include "base/names.h"
#include "base/stage.h"
#include "base/thread_pool.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

fs::path scratch(const char* name) {
  fs::path folder = fs::temp_directory_path() / fmt::format("fathom-base-test-{}", ::getpid());
  fs::create_directories(folder);
  return folder / name;
}

TEST(Check, MessageIsCleanAndPlaceIsKept) {
  try {
    const int heads = 7;
    CHECK(heads % 2 == 0, "{} heads cannot be halved", heads);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "7 heads cannot be halved");
    EXPECT_NE(error.where().find("heads % 2 == 0"), std::string::npos);
  }
}

TEST(File, AtomicWriteIsCompleteOrAbsent) {
  const fs::path path = scratch("atomic.txt");
  {
    AtomicFile file(path);
    file.write("half");
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(fs::is_empty(path.parent_path()));
  write_file(path, "whole");
  EXPECT_EQ(read_file(path), "whole");
  EXPECT_EQ(MappedFile(path).bytes().size(), 5u);
  EXPECT_THROW(read_file(path, 4), Error);
  fs::remove_all(path.parent_path());
}

TEST(File, PopulateTellsOfALostEnd) {
  const fs::path path = scratch("map.bin");
  write_file(path, std::string(20000, 'x'));
  const MappedFile file(path);
  populate(file.bytes().subspan(4097, 12000));
  populate({});
  fs::resize_file(path, 4096);
  populate(file.bytes().first(4096));
  try {
    populate(file.bytes().subspan(4096));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos) << error.what();
  }
  fs::remove_all(path.parent_path());
}

TEST(MappedPath, NamesTheFileOfAnAddress) {
  const fs::path path = scratch("map of a file.bin");
  write_file(path, std::string(20000, 'x'));
  const MappedFile file(path);
  char room[4096], small[5];
  for (const i64 offset : {0, 4096, 19999}) EXPECT_EQ(mapped_path(file.bytes().data() + offset, room), path.string());
  EXPECT_EQ(mapped_path(file.bytes().data(), small), path.string().substr(0, 5));
  EXPECT_EQ(mapped_path(room, room), "");
  EXPECT_EQ(mapped_path(nullptr, room), "");
  fs::remove_all(path.parent_path());
}

TEST(File, ErrorsNameThePath) {
  try {
    read_file("/nonexistent/file");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "cannot open /nonexistent/file: No such file or directory");
  }
  EXPECT_THROW(read_file("/tmp"), Error);
  EXPECT_THROW(MappedFile("/tmp"), Error);
}

TEST(Hash, KnownDigests) {  // FIPS 180-4 examples
  EXPECT_EQ(sha256_hex({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const std::string abc = "abc";
  EXPECT_EQ(sha256_hex(std::as_bytes(std::span(abc))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

// From construction to destruction no thread can be started: stacks would be larger than the address space.
struct NoThreads {
  pthread_attr_t before = {}, huge = {};
  NoThreads() {
    pthread_getattr_default_np(&before);
    pthread_getattr_default_np(&huge);
    pthread_attr_setstacksize(&huge, std::size_t{1} << 47);
    pthread_setattr_default_np(&huge);
  }
  ~NoThreads() { pthread_setattr_default_np(&before); }
};

TEST(ThreadPool, FewerThreadsWhereTheSystemGivesNoMore) {
  const NoThreads none;
  ThreadPool pool(8);
  EXPECT_EQ(pool.size(), 1);
  i64 sum = 0;
  pool.parallel_for(100, 7, [&](i64 begin, i64 end, int) {
    for (i64 i = begin; i < end; ++i) sum += i;
  });
  EXPECT_EQ(sum, 4950);
}

TEST(Stage, SaysThatItsThreadCannotBeStarted) {
  const NoThreads none;
  try {
    const Stage stage([](i64) {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("cannot start a thread ("), 0u) << error.what();
  }
}

TEST(ThreadPool, EveryItemOnceAndErrorsArrive) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (i64 count : {0, 1, 7, 1000}) {
      std::vector<std::atomic<int>> hits(static_cast<std::size_t>(count));
      pool.parallel_for(count, 3, [&](i64 begin, i64 end, int worker) {
        EXPECT_LT(worker, pool.size());
        for (i64 i = begin; i < end; ++i) ++hits[static_cast<std::size_t>(i)];
      });
      for (const auto& hit : hits) EXPECT_EQ(hit, 1);
    }
    EXPECT_THROW(pool.parallel_for(100, 1, [](i64 begin, i64, int) { CHECK(begin != 42, "item 42"); }), Error);
    pool.parallel_for(10, 1, [](i64, i64, int) {});
  }
}

TEST(Names, NearestByEdits) {
  constexpr std::array<std::string_view, 3> known = {"n_heads", "n_layers", "n_activated_experts"};
  EXPECT_EQ(nearest_name("n_actived_experts", known), "n_activated_experts");
  EXPECT_EQ(nearest_name("heads", known), "n_heads");
}

}  // namespace
}  // namespace fathom
