#include "text/tokenizer/regex.h"

#include <gtest/gtest.h>

#include "base/check.h"
#include "text/unicode/classes.h"

namespace fathom {
namespace {

// Matches joined by '|'.
std::string found(std::string_view pattern, std::string_view text, bool recent = false) {
  const Regex regex(pattern);
  Regex::Matcher matcher(regex, recent);
  matcher.start(text);
  std::string out;
  while (const auto match = matcher.next()) {
    out += text.substr(match->begin, match->end - match->begin);
    out += '|';
  }
  return out;
}

TEST(Regex, SpeaksOnigurumasDialect) {
  EXPECT_EQ(found("\\h+", "xface-0Ag"), "face|0A|");
  EXPECT_EQ(found("(?m:a.b)", "a\nb"), "a\nb|");
  EXPECT_EQ(found("a.b", "a\nb"), "");
  EXPECT_EQ(found("a.b", "a\rb"), "a\rb|");
  EXPECT_EQ(found("^b$", "a\nb\nc"), "b|");
  EXPECT_EQ(found("a{,2}b", "aaab"), "aab|");
  EXPECT_EQ(found("\\u4e2d", "中"), "中|");
  EXPECT_EQ(found("[]a]+", "a]b"), "a]|");
  EXPECT_EQ(found("[[a-c]x]+", "axd"), "ax|");
  EXPECT_EQ(found("[^a-c&&[^x]]+", "abxyz"), "xyz|");
  EXPECT_EQ(found("[\\p{Lu}&&\\p{Latin}]", "AЖB"), "A|B|");
  EXPECT_EQ(found("\\p{^L}+|\\P{Letter}", "ab12"), "12|");
  EXPECT_EQ(found("[\\w&&[^\\d]]+", "a1b"), "a|b|");
  EXPECT_EQ(found("(?i)ſ", "sS"), "s|S|");
  EXPECT_EQ(found("\\s", "\xE1\xA0\x8E\xC2\x85"), "\xC2\x85|");
  EXPECT_EQ(found("[^\\s]", "\xE1\xA0\x8E\xC2\x85"), "\xE1\xA0\x8E|");
  EXPECT_EQ(found("\\S", "\xE1\xA0\x8E\xC2\x85"), "\xE1\xA0\x8E|");
}

// U+1C89 is a letter since Unicode 16, U+11F50 a digit since Unicode 15.
TEST(Regex, KnowsCharactersNewerThanItsEngine) {
  EXPECT_TRUE(has_recent_characters("x\u1C89"));
  EXPECT_FALSE(has_recent_characters("xé中\U0001F600"));
  EXPECT_EQ(found("\\p{L}+", "a\u1C89", true), "a\u1C89|");
  EXPECT_EQ(found("[^\\p{L}]+", "a\u1C89-", true), "-|");
  EXPECT_EQ(found("\\p{N}|\\d", "\U00011F50", true), "\U00011F50|");
  EXPECT_EQ(found("\\W", "\u1C89-", true), "-|");
}

TEST(Regex, EmptyMatchesMoveOn) {
  EXPECT_EQ(found("x*", "axxb"), "|xx||");
  EXPECT_EQ(found("", "中a"), "|||");
}

TEST(Regex, LongMatchesNeedNoStack) {
  const std::string text(1000000, 'a');
  EXPECT_EQ(found("(?:a|b)+", text).size(), text.size() + 1);
}

TEST(Regex, WhatItCannotDoIsAnError) {
  for (const char* bad : {"(", "[a", "\\", "\\p{", "\\p", "[[:frob:]]", "\\u12", "a{2,1}", "(?<=a+)b", "\\p{NoSuch}",
                          "\xFF", "((((a{500}){500}){500}){500})"})
    EXPECT_THROW(Regex{bad}, Error) << bad;
  EXPECT_THROW(Regex(std::string(1000, '[')), Error);
}

TEST(Regex, LiteralsAreTakenAsTheyAre) {
  const Regex regex = Regex::literal(".*");
  Regex::Matcher matcher(regex, false);
  matcher.start("a.*b.*");
  EXPECT_EQ(matcher.next(), (Span{1, 3}));
  EXPECT_EQ(matcher.next(), (Span{4, 6}));
  EXPECT_EQ(matcher.next(), std::nullopt);
}

}  // namespace
}  // namespace fathom
