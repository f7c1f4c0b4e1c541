#include "checkpoint/raw_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/file.h"

namespace fathom {
namespace {

TEST(RawFiles, AreFoundByTheFolder) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("fathom-raw-{}", ::getpid());
  std::filesystem::create_directories(folder);
  write_file(folder / "shapes.txt", "norm.weight 2 3\n");
  write_file(folder / "norm.weight", "abcdefghijkl");
  const auto checkpoint = open_checkpoint(folder, 0, 1);
  const TensorInfo* info = checkpoint->find("norm.weight");
  ASSERT_NE(info, nullptr);
  std::string column(4, ' ');
  checkpoint->read(*info, {1, 1, 1}, std::as_writable_bytes(std::span(column)));
  EXPECT_EQ(column, "cdij");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace fathom
