#include "text/tokenizer/stream_decoder.h"

#include <gtest/gtest.h>

#include <random>

#include "text/tokenizer/tokenizer.h"
#include "text/unicode/utf8.h"

namespace fathom {
namespace {

std::vector<std::string> parts_of(StopFinder finder, const std::vector<std::string>& texts) {
  std::vector<std::string> parts;
  for (const std::string& text : texts) parts.push_back(finder.push(text));
  parts.push_back(finder.finish());
  return parts;
}

using Parts = std::vector<std::string>;

TEST(StopFinder, HoldsBackWhatMayBecomeAStop) {
  EXPECT_EQ(parts_of(StopFinder({"</end>"}), {"abc <", "/e", "nd", "> more", "and more"}),
            (Parts{"abc ", "", "", "", "", ""}));
  EXPECT_EQ(parts_of(StopFinder({"</end>"}), {"abc <", "/e", "x<"}), (Parts{"abc ", "", "</ex", "<"}));
  EXPECT_EQ(parts_of(StopFinder({}), {"a", "b"}), (Parts{"a", "b", ""}));
  EXPECT_EQ(parts_of(StopFinder({""}), {"a", "b"}), (Parts{"a", "b", ""}));
}

TEST(StopFinder, RestartsWithinAFailedMatch) {
  EXPECT_EQ(parts_of(StopFinder({"aab"}), {"aa", "a", "a", "b!"}), (Parts{"", "a", "a", "", ""}));
  EXPECT_EQ(parts_of(StopFinder({"abab!"}), {"ababab", "!x"}), (Parts{"ab", "", ""}));
}

TEST(StopFinder, TheFirstToBeCompleteCounts) {
  EXPECT_EQ(parts_of(StopFinder({"abcd", "bc"}), {"xabcd"}), (Parts{"xa", ""}));
  EXPECT_EQ(parts_of(StopFinder({"bc", "abc"}), {"xabc"}), (Parts{"x", ""}));
}

// Against the plain rule, on few letters so that near matches abound.
TEST(StopFinder, EqualsAPlainSearch) {
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    const auto word = [&](std::size_t length) {
      std::string out;
      while (out.size() < length) out += static_cast<char>('a' + random() % 2);
      return out;
    };
    const Parts stops{word(1 + random() % 6), word(2 + random() % 6)};
    const std::string text = word(random() % 24);
    std::string expected = text;
    for (std::size_t end = 1; end <= text.size(); ++end) {
      std::size_t longest = 0;
      for (const std::string& stop : stops)
        if (text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
      if (longest == 0) continue;
      expected = text.substr(0, end - longest);
      break;
    }
    StopFinder finder(stops);
    std::string shown;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t n = 1 + random() % 3;
      shown += finder.push(std::string_view(text).substr(at, n));
      ASSERT_TRUE(expected.starts_with(shown)) << text;
      at += n;
    }
    shown += finder.finish();
    ASSERT_EQ(shown, expected) << text << " / " << stops[0] << " / " << stops[1];
  }
}

// Bytes as tokens: every character is spread over several ids.
class Bytes : public testing::Test {
 protected:
  static Tokenizer make() {
    std::string vocab;
    for (int byte = 0; byte < 256; ++byte) {
      std::string name;
      const bool own = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      static_cast<void>(own);
      append_utf8(name, own ? static_cast<char32_t>(byte) : 0);
      if (!own) name = other(byte);
      if (name == "\"" || name == "\\") name.insert(0, "\\");
      vocab += (vocab.empty() ? "\"" : ",\"") + name + "\":" + std::to_string(byte);
    }
    return Tokenizer::parse(R"({"model":{"vocab":{)" + vocab +
                            R"(},"merges":[]},"decoder":{"type":"ByteLevel"},"pre_tokenizer":{"type":"ByteLevel",)"
                            R"("add_prefix_space":false,"use_regex":false}})");
  }
  static std::string other(int byte) {
    const int rank = byte <= 0x20 ? byte : byte <= 0xA0 ? byte - 0x7F + 33 : 67;
    std::string name;
    append_utf8(name, static_cast<char32_t>(256 + rank));
    return name;
  }
  const Tokenizer tokenizer_ = make();
};

TEST_F(Bytes, OneCharacterAtATime) {
  EXPECT_EQ(tokenizer_.encode("\xF0\x9F\x98\x80"), (std::vector<TokenId>{0xF0, 0x9F, 0x98, 0x80}));
  StreamDecoder stream(tokenizer_);
  EXPECT_EQ(stream.push(0xF0), "");
  EXPECT_EQ(stream.push(0x9F), "");
  EXPECT_EQ(stream.push(0x98), "");
  EXPECT_EQ(stream.push(0x80), "\xF0\x9F\x98\x80");
  EXPECT_EQ(stream.push(999), "");
  EXPECT_EQ(stream.finish(), "");
}

TEST_F(Bytes, PartsOfAnyBytesJoinToTheWhole) {
  std::mt19937 random(11);
  const std::vector<TokenId> likely = {0xE4, 0xB8, 0xAD, 0xF0, 0x9F, 0x98, 0x80,
                                       0xC3, 0xA9, 'a',  ' ',  0xFF, 0xED, 0xA0};
  for (int round = 0; round < 2000; ++round) {
    std::vector<TokenId> ids;
    for (std::size_t n = random() % 20; ids.size() < n;) ids.push_back(likely[random() % likely.size()]);
    std::string bytes, joined;
    StreamDecoder stream(tokenizer_);
    for (const TokenId id : ids) {
      bytes += static_cast<char>(id);
      const std::string part = stream.push(id);
      ASSERT_TRUE(is_valid_utf8(part));
      joined += part;
    }
    joined += stream.finish();
    ASSERT_EQ(joined, tokenizer_.decode(ids));
    ASSERT_EQ(joined, to_valid_utf8(bytes));
  }
}

TEST_F(Bytes, StopsAcrossTokens) {
  StreamDecoder stream(tokenizer_, true, {"。\n"});
  std::string shown;
  for (const char byte : std::string("好。x。\n后")) shown += stream.push(static_cast<unsigned char>(byte));
  EXPECT_TRUE(stream.stopped());
  EXPECT_EQ(shown + stream.finish(), "好。x");
}

TEST_F(Bytes, WhatIsHeldBackComesAtTheEnd) {
  StreamDecoder stream(tokenizer_, true, {"stop"});
  std::string shown;
  for (const char byte : std::string("a sto\xE4")) shown += stream.push(static_cast<unsigned char>(byte));
  EXPECT_EQ(shown, "a ");
  EXPECT_EQ(stream.finish(), "sto\uFFFD");
  EXPECT_FALSE(stream.stopped());
}

}  // namespace
}  // namespace fathom
