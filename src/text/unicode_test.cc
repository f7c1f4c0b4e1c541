#include "text/unicode.h"

#include <gtest/gtest.h>

namespace fathom {
namespace {

TEST(Unicode, EveryCharacterGoesThereAndBack) {
  std::string text;
  for (char32_t c = 0; c < kCodePoints; ++c)
    if (c < 0xD800 || c > 0xDFFF) append_utf8(text, c);
  EXPECT_TRUE(is_valid_utf8(text));
  std::size_t at = 0;
  for (char32_t c = 0; c < kCodePoints; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    ASSERT_EQ(next_char(text, at), c);
    std::size_t back = at;
    ASSERT_EQ(previous_char(text, back), c);
  }
  EXPECT_EQ(at, text.size());
}

// The examples of the Unicode standard (table 3-8 and its neighbours): one U+FFFD for each maximal ill-formed part.
TEST(Unicode, IllFormedPartsAreReplaced) {
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

TEST(Unicode, IncompleteIsToldFromWrong) {
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

TEST(Unicode, Classes) {
  EXPECT_EQ(category(U'a'), Category::Ll);
  EXPECT_EQ(category(0x1C89), Category::Lu);  // Unicode 16
  EXPECT_EQ(category(0x378), Category::Cn);
  EXPECT_EQ(category(0x10FFFF), Category::Cn);
  EXPECT_EQ(category(0xD800), Category::Cs);
  EXPECT_EQ(major_category(Category::Sk), 'S');
  EXPECT_TRUE(is_space(0x3000) && is_space(0x85) && is_space(0x20) && !is_space(0x180E) && !is_space(0x200B));
  EXPECT_TRUE(is_numeric(0xB2) && is_numeric(0x2167) && !is_numeric(U'a'));
  EXPECT_TRUE(is_punctuation(U'$') && is_punctuation(0x3002) && !is_punctuation(0x20AC));
  std::string lower;
  for (const char32_t c : U"ÀİΣ中") append_lower(lower, c);
  EXPECT_EQ(lower, std::string("ài\xCC\x87σ中") + '\0');
}

}  // namespace
}  // namespace fathom
