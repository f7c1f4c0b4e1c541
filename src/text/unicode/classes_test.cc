#include "text/unicode/classes.h"

#include <gtest/gtest.h>

namespace fathom {
namespace {

TEST(Classes, KnownCharacters) {
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
