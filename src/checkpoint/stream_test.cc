#include "checkpoint/stream.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/slice.h"
#include "checkpoint/stream_batches.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

// Tensors whose every byte follows from its place; reading fails once so many bytes were read.
class CountingCheckpoint : public Checkpoint {
 public:
  explicit CountingCheckpoint(std::vector<TensorInfo> tensors) : tensors_(std::move(tensors)) {}
  std::string description() const override { return "counting"; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view) const override { return nullptr; }
  void read(const TensorInfo& info, const Slice& slice, std::span<std::byte> out) const override {
    bytes_read += static_cast<i64>(out.size());
    CHECK(bytes_read <= limit, "the disk is gone");
    if (slice.dim > 0) {
      std::vector<std::byte> whole(static_cast<std::size_t>(info.bytes()));
      fill(info, 0, whole);
      return copy_slice(info, slice, whole, out);
    }
    fill(info, slice.dim < 0 ? 0 : slice.start * (info.bytes() / info.shape[0]), out);
  }

  mutable std::atomic<i64> bytes_read = 0;
  i64 limit = i64{1} << 40;

 private:
  void fill(const TensorInfo& info, i64 offset, std::span<std::byte> out) const {
    const i64 number = &info - tensors_.data();
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<std::byte>(((offset + static_cast<i64>(i)) * 2654435761 >> 7) + number * 41);
  }
  std::vector<TensorInfo> tensors_;
};

// A pipeline that waits for bytes that never come would hang for good.
void give_up(int) {
  constexpr std::string_view kMessage = "stream_test: a test took longer than 300 s\n";
  [[maybe_unused]] const ssize_t unused = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
  ::_exit(1);
}

class StreamTest : public testing::Test {
 protected:
  void SetUp() override {
    std::signal(SIGALRM, give_up);
    ::alarm(300);
    fs::create_directories(folder_);
    items_.push_back({"wide", &source_.tensors()[0], {}});
    items_.push_back({"rows", &source_.tensors()[1], {0, 128, 300}});
    items_.push_back({"columns", &source_.tensors()[1], {1, 100, 1001}});
    items_.push_back({"empty", &source_.tensors()[2], {}});
    items_.push_back({"scalar", &source_.tensors()[3], {}});
    items_.push_back({"big", &source_.tensors()[4], {}});
  }
  void TearDown() override {
    ::alarm(0);
    fs::remove_all(folder_);
  }

  FileDigest stream(const std::string& name, bool resume, bool alone = true) {
    ThreadPool pool(3);
    i64 heard = 0;
    FileDigest digest =
        stream_tensors(source_, items_, folder_ / name, pool,
                       {.hash = true, .alone = alone, .resume = resume, .mark_bytes = 1, .progress = [&](i64 bytes) {
                          heard += bytes;
                        }});
    i64 total = 0;
    for (const TensorInfo& info : digest.tensors) total += info.bytes();
    EXPECT_EQ(heard, total);
    return digest;
  }

  CountingCheckpoint source_{{{"a", DType::f32, {777, 1000}},
                              {"b", DType::bf16, {500, 1500}},
                              {"c", DType::u8, {0, 5}},
                              {"d", DType::i64, {}},
                              {"e", DType::e4m3, {160'001, 1'000}}}};
  std::vector<StreamItem> items_;
  fs::path folder_ = fs::temp_directory_path() / fmt::format("fathom-stream-test-{}", ::getpid());
};

TEST_F(StreamTest, BytesAndHashesAreThoseOfTheFile) {
  const FileDigest digest = stream("out", false);
  const std::string bytes = read_file(folder_ / "out");
  EXPECT_EQ(digest.bytes, static_cast<i64>(bytes.size()));
  EXPECT_EQ(digest.sha256, sha256_hex(std::as_bytes(std::span(bytes))));
  const FileDigest again = stream("again", false, false);
  EXPECT_EQ(again.sha256, digest.sha256);
  EXPECT_EQ(again.tensor_sha256, digest.tensor_sha256);
  const SafetensorsFile file(folder_ / "out");
  ASSERT_EQ(file.tensors().size(), items_.size());
  for (std::size_t i = 0; i < items_.size(); ++i) {
    EXPECT_EQ(file.tensors()[i].name, digest.tensors[i].name);
    EXPECT_EQ(digest.tensor_sha256[i], sha256_hex(file.bytes(digest.tensors[i].name)));
  }
  for (const StreamItem& item : items_) {
    std::vector<std::byte> want(static_cast<std::size_t>(file.find(item.stored_name)->bytes()));
    source_.read(*item.source, item.slice, want);
    const auto found = file.bytes(item.stored_name);
    EXPECT_TRUE(std::equal(want.begin(), want.end(), found.begin(), found.end())) << item.stored_name;
  }
}

TEST_F(StreamTest, GoesOnInsideABrokenOffFile) {
  const FileDigest whole = stream("whole", false);
  const std::string expected = read_file(folder_ / "whole");
  const i64 all = source_.bytes_read;
  source_.bytes_read = 0;
  source_.limit = all * 3 / 4;  // of ten batches: four may be in memory, the others are in the file
  EXPECT_THROW(stream("out", true), Error);
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  source_.bytes_read = 0;
  source_.limit = all * 3 / 4;  // what is left must be less than that
  const FileDigest rest = stream("out", true);
  EXPECT_GT(rest.kept_bytes, all / 4);
  EXPECT_EQ(rest.sha256, whole.sha256);
  EXPECT_EQ(rest.tensor_sha256, whole.tensor_sha256);
  EXPECT_EQ(read_file(folder_ / "out"), expected);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 2);
}

TEST_F(StreamTest, OtherTensorsBeginAgain) {
  source_.limit = 50'000'000;
  EXPECT_THROW(stream("out", true), Error);
  items_[0].stored_name = "another";
  source_.limit = i64{1} << 40;
  EXPECT_EQ(stream("out", true).kept_bytes, 0);
  EXPECT_NE(SafetensorsFile(folder_ / "out").find("another"), nullptr);
}

TEST(StreamBatches, StacksAreReadMatrixByMatrix) {
  const TensorInfo stack{"experts", DType::bf16, {16, 1024, 1024}};
  const StreamItem item{stack.name, &stack, {}, false};
  const auto batches = cut_into_batches({&item}, 0);
  i64 matrices = 0;
  for (const StreamBatch& batch : batches)
    for (const StreamPiece& piece : batch.pieces) {
      EXPECT_EQ(piece.slice.length, 1);
      EXPECT_EQ(piece.bytes, 2 << 20);
      matrices += piece.slice.length;
    }
  EXPECT_EQ(matrices, 16);
}

}  // namespace
}  // namespace fathom
