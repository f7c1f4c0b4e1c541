#include "base/bytes_text.h"

#include <gtest/gtest.h>

namespace fathom {
namespace {

TEST(BytesText, ThreeDigitsAtMost) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1000), "1.0 kB");
  EXPECT_EQ(bytes_text(99'400), "99.4 kB");
  EXPECT_EQ(bytes_text(99'600), "100 kB");
  EXPECT_EQ(bytes_text(999'600), "1.0 MB");  // not "1000 kB"
  EXPECT_EQ(bytes_text(5'000'000'000), "5.0 GB");
  EXPECT_EQ(bytes_text(i64{2'000'000'000'000'000}), "2.0 PB");
}

TEST(MemoryText, IsNeverZeroForSomething) {
  EXPECT_EQ(memory_text(i64{5} << 28), "1.25 GiB");
  EXPECT_EQ(memory_text(i64{12} << 20), "12.0 MiB");
  EXPECT_EQ(memory_text(3584), "3.5 KiB");
}

}  // namespace
}  // namespace fathom
