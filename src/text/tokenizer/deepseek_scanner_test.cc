#include "text/tokenizer/deepseek_scanner.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "text/tokenizer/pretokenizer.h"
#include "text/unicode/classes.h"
#include "text/unicode/utf8.h"

namespace fathom {
namespace {

using nlohmann::json;

constexpr const char* kWords =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

json description() {
  json splits = json::array();
  for (const char* pattern : {"\\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+", kWords}) {
    splits.push_back(
        {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}});
  }
  return {{"type", "Sequence"}, {"pretokenizers", splits}};
}

std::vector<std::string> pieces_of(const PreTokenizer& pre_tokenizer, std::string_view text) {
  PieceList list;
  pre_tokenizer.split({text, true}, list);
  std::vector<std::string> out;
  for (const Piece& piece : list.pieces) out.emplace_back(piece.text);
  return out;
}

// One character of a kind that the patterns tell apart.
char32_t random_char(std::mt19937& random) {
  constexpr std::u32string_view kPicks =
      U" \t\n\r\r\n  aZé!'\"#,.-_|~09²Ⅷ٣中文龥龦\u3007\u3041\u3099\u309B\u309F\u30A0\u30FB\u30FC\u30FF\u3100"
      U"\u0301\u093E\u20DD\u00A0\u2028\u2029\u0085\u180E\u200B\u200D\uFEFF\u3000。，「€+<\u0000\u0001\u007F\U0001F600"
      U"\U00020000\U000E0100\U0010FFFF\uFFFD\uE000\u0378";
  switch (random() % 8) {
    case 0: {
      char32_t c = random() % kCodePoints;
      return c >= 0xD800 && c < 0xE000 ? U'x' : c;
    }
    case 1:
      return random() % 0x80;
    case 2:
      return U'a' + random() % 26;
    case 3:
      return 0x3000 + random() % 0x120;
    case 4:
      return 0x9F80 + random() % 0x60;
    default:
      return kPicks[random() % kPicks.size()];
  }
}

TEST(DeepSeekScanner, StandsForThePatternsOfTheFile) {
  const std::string patterns[] = {"\\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+", kWords};
  EXPECT_TRUE(DeepSeekScanner::stands_for(patterns));
  const std::string others[] = {"\\p{N}{1,2}", "[一-龥\u3040-ゟ゠-ヿ]+", kWords};
  EXPECT_FALSE(DeepSeekScanner::stands_for(others));
}

TEST(DeepSeekScanner, EqualsTheRegularExpressionsOnRandomTexts) {
  const PreTokenizer fast(description()), plain(description(), false);
  std::mt19937 random(965);
  for (int round = 0; round < 100000; ++round) {
    std::string text;
    const std::size_t length = random() % 30;
    for (std::size_t i = 0; i < length; ++i) {
      const char32_t c = random_char(random);
      const std::size_t repeat = random() % 6 == 0 ? 1 + random() % 4 : 1;
      for (std::size_t r = 0; r < repeat; ++r) append_utf8(text, c);
    }
    ASSERT_EQ(pieces_of(fast, text), pieces_of(plain, text)) << json(text);
  }
}

TEST(DeepSeekScanner, EqualsTheRegularExpressionsOnEveryCharacter) {
  const PreTokenizer fast(description()), plain(description(), false);
  std::string text;
  for (char32_t c = 0; c < kCodePoints; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    for (const char* before : {"a", " ", ""}) {
      text += before;
      append_utf8(text, c);
    }
    append_utf8(text, c);
    text += "b\n";
    if (c % 256 != 255) continue;
    ASSERT_EQ(pieces_of(fast, text), pieces_of(plain, text)) << "before " << static_cast<unsigned>(c);
    text.clear();
  }
}

}  // namespace
}  // namespace fathom
