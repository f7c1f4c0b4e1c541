#include "text/unicode/utf8.h"

#include <gtest/gtest.h>

namespace fathom {
namespace {

TEST(Utf8, EveryCharacterGoesThereAndBack) {
  std::string text;
  for (char32_t c = 0; c < 0x110000; ++c)
    if (c < 0xD800 || c > 0xDFFF) append_utf8(text, c);
  EXPECT_TRUE(is_valid_utf8(text));
  std::size_t at = 0;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    ASSERT_EQ(next_char(text, at), c);
    std::size_t back = at;
    ASSERT_EQ(previous_char(text, back), c);
  }
  EXPECT_EQ(at, text.size());
}

// The examples of the Unicode standard (table 3-8 and its neighbours): one U+FFFD for each maximal ill-formed part.
TEST(Utf8, IllFormedPartsAreReplaced) {
  EXPECT_EQ(to_valid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD"
            "A");
  EXPECT_EQ(to_valid_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD"
            "A");
  EXPECT_EQ(to_valid_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD"
            "A\uFFFD\uFFFD"
            "B");
  EXPECT_EQ(to_valid_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD"
            "A");
  EXPECT_EQ(to_valid_utf8("plain text of more than eight bytes \xE4\xB8\xAD"),
            "plain text of more than eight bytes 中");
}

TEST(Utf8, IncompleteIsToldFromWrong) {
  bool incomplete = false;
  EXPECT_EQ(ill_formed_length("\xF0\x9F\x98", incomplete), 3u);
  EXPECT_TRUE(incomplete);
  EXPECT_EQ(ill_formed_length("\xE4", incomplete), 1u);
  EXPECT_TRUE(incomplete);
  EXPECT_EQ(ill_formed_length("\xE4x", incomplete), 1u);
  EXPECT_FALSE(incomplete);
  EXPECT_EQ(ill_formed_length("\xC0", incomplete), 1u);
  EXPECT_FALSE(incomplete);
}

TEST(Utf8, OneByteOrderMarkInFrontGoes) {
  EXPECT_EQ(without_byte_order_mark("\xEF\xBB\xBF"
                                    "a"),
            "a");
  EXPECT_EQ(without_byte_order_mark("\xEF\xBB\xBF\xEF\xBB\xBF"
                                    "a\xEF\xBB\xBF"),
            "\xEF\xBB\xBF"
            "a\xEF\xBB\xBF");
  EXPECT_EQ(without_byte_order_mark("\xEF\xBB"), "\xEF\xBB");
}

}  // namespace
}  // namespace fathom
