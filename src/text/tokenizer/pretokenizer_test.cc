#include "text/tokenizer/pretokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "text/tokenizer/byte_level.h"

namespace fathom {
namespace {

using nlohmann::json;

// Expected values are those of the Rust library (Python package tokenizers 0.23.3).
struct Case {
  const char* description;
  const char* text;
  std::vector<std::string> expected;
};

std::vector<std::string> pieces_of(const json& description, std::string_view text, bool first = true) {
  const PreTokenizer pre_tokenizer(description);
  PieceList list;
  pre_tokenizer.split({text, first}, list);
  std::vector<std::string> out;
  for (const Piece& piece : list.pieces)
    out.push_back(pre_tokenizer.ends_in_bytes() ? bytes_to_chars(piece.text) : std::string(piece.text));
  return out;
}

TEST(PreTokenizer, EqualsTheRustLibrary) {
  const Case cases[] = {
      // clang-format off
      {R"({"type":"Split","pattern":{"String":"-"},"behavior":"Removed","invert":false})", "the--final-countdown-", {"the", "final", "countdown"}},
      {R"({"type":"Split","pattern":{"String":"-"},"behavior":"Removed","invert":true})", "the--final-countdown-", {"-", "-", "-", "-"}},
      {R"({"type":"Split","pattern":{"Regex":"\\d+|[x.]"},"behavior":"Removed","invert":false})", "12x..ab3 4x", {"ab", " "}},
      {R"({"type":"Split","pattern":{"String":"-"},"behavior":"Isolated","invert":false})", "the--final-countdown-", {"the", "-", "-", "final", "-", "countdown", "-"}},
      {R"({"type":"Split","pattern":{"String":"-"},"behavior":"Isolated","invert":true})", "the--final-countdown-", {"the", "-", "-", "final", "-", "countdown", "-"}},
      {R"({"type":"Split","pattern":{"Regex":"\\d+|[x.]"},"behavior":"Isolated","invert":false})", "12x..ab3 4x", {"12", "x", ".", ".", "ab", "3", " ", "4", "x"}},
      {R"({"type":"Split","pattern":{"String":"-"},"behavior":"MergedWithPrevious","invert":false})", "the--final-countdown-", {"the-", "-", "final-", "countdown-"}},
      {R"({"type":"Split","pattern":{"String":"-"},"behavior":"MergedWithPrevious","invert":true})", "the--final-countdown-", {"the", "-", "-final", "-countdown", "-"}},
      {R"({"type":"Split","pattern":{"Regex":"\\d+|[x.]"},"behavior":"MergedWithPrevious","invert":false})", "12x..ab3 4x", {"12", "x", ".", ".", "ab3", " 4", "x"}},
      {R"({"type":"Split","pattern":{"String":"-"},"behavior":"MergedWithNext","invert":false})", "the--final-countdown-", {"the", "-", "-final", "-countdown", "-"}},
      {R"({"type":"Split","pattern":{"String":"-"},"behavior":"MergedWithNext","invert":true})", "the--final-countdown-", {"the-", "-", "final-", "countdown-"}},
      {R"({"type":"Split","pattern":{"Regex":"\\d+|[x.]"},"behavior":"MergedWithNext","invert":false})", "12x..ab3 4x", {"12", "x", ".", ".ab", "3 ", "4", "x"}},
      {R"({"type":"Split","pattern":{"String":"-"},"behavior":"Contiguous","invert":false})", "the--final-countdown-", {"the", "--", "final", "-", "countdown", "-"}},
      {R"({"type":"Split","pattern":{"String":"-"},"behavior":"Contiguous","invert":true})", "the--final-countdown-", {"the", "--", "final", "-", "countdown", "-"}},
      {R"({"type":"Split","pattern":{"Regex":"\\d+|[x.]"},"behavior":"Contiguous","invert":false})", "12x..ab3 4x", {"12x..", "ab", "3", " ", "4x"}},
      {R"({"type":"Split","pattern":{"String":""},"behavior":"Isolated","invert":false})", "ab中", {"a", "b", "中"}},
      {R"({"type":"Split","pattern":{"Regex":"a*"},"behavior":"MergedWithNext","invert":false})", "baac", {"b", "aac"}},
      {R"({"type":"Split","pattern":{"Regex":"(?<=a)b|^c$"},"behavior":"Isolated","invert":false})", "abcb\nc\nc", {"a", "b", "cb\n", "c", "\n", "c"}},
      {R"({"type":"Split","pattern":{"Regex":"[a-z&&[^aeiou]]+"},"behavior":"Isolated","invert":false})", "hello world", {"h", "e", "ll", "o ", "w", "o", "rld"}},
      {R"({"type":"Split","pattern":{"Regex":"\\h+|[[:space:]]|\\p{Han}"},"behavior":"Isolated","invert":false})", "zdeadg 中文x\341\240\216", {"z", "dead", "g", " ", "中", "文", "x\341\240\216"}},
      {R"({"type":"Split","pattern":{"Regex":"\\w+"},"behavior":"Isolated","invert":false})", "é_1\314\201 \342\222\266 x\342\200\277y-\302\262\342\200\215", {"é_1\314\201", " ", "\342\222\266", " ", "x\342\200\277y", "-", "\302\262", "\342\200\215"}},
      {R"({"type":"Split","pattern":{"Regex":"\\bfoo\\b"},"behavior":"Removed","invert":false})", "foo foobar xfoo foo.", {" foobar xfoo ", "."}},
      {R"({"type":"Split","pattern":{"Regex":"[^\\S\\n]+"},"behavior":"Removed","invert":false})", "a \t\nb\341\240\216c\343\200\200d", {"a", "\nb\341\240\216c", "d"}},
      {R"({"type":"Split","pattern":{"Regex":"(?m:.)+"},"behavior":"Isolated","invert":false})", "a\nb", {"a\nb"}},
      {R"({"type":"Split","pattern":{"Regex":".+"},"behavior":"Isolated","invert":false})", "a\nb\r\nc", {"a", "\n", "b\r", "\n", "c"}},
      {R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true})", "Hello there's  ok\n\n x", {"ĠHello", "Ġthere", "'s", "Ġ", "Ġok", "ĊĊ", "Ġx"}},
      {R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true})", "é 12ab!?", {"ĠÃ\302\251", "Ġ12", "ab", "!?"}},
      {R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true})", " pre", {"Ġpre"}},
      {R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false})", "Hello there", {"HelloĠthere"}},
      {R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true})", "I'll  go", {"I", "'ll", "Ġ", "Ġgo"}},
      {R"({"type":"Digits","individual_digits":true})", "ab12c\302\262\342\205\247\331\243", {"ab", "1", "2", "c", "\302\262", "\342\205\247", "\331\243"}},
      {R"({"type":"Digits","individual_digits":false})", "ab12c\302\262\342\205\247 3", {"ab", "12", "c", "\302\262\342\205\247", " ", "3"}},
      {R"({"type":"Punctuation"})", "Hi!? ok\343\200\202$a+b\302\277\342\271\222", {"Hi", "!", "?", " ok", "\343\200\202", "$", "a", "+", "b", "\302\277", "\342\271\222"}},
      {R"({"type":"Punctuation","behavior":"Removed"})", "Hi!? ok\343\200\202$", {"Hi", " ok"}},
      {R"({"type":"Punctuation","behavior":"Contiguous"})", "Hi!? ok", {"Hi", "!?", " ok"}},
      {R"({"type":"Whitespace"})", "Hi, you_2!? é\314\201 中文\342\200\215x \302\277x", {"Hi", ",", "you_2", "!?", "é\314\201", "中文\342\200\215x", "\302\277", "x"}},
      {R"({"type":"WhitespaceSplit"})", "Hi,  you\343\200\200x\n\342\200\213y", {"Hi,", "you", "x", "\342\200\213y"}},
      {R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true})", "Hey  friend", {"▁Hey", "▁", "▁friend"}},
      {R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true})", "▁x", {"▁x"}},
      {R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true})", " a", {"▁a"}},
      {R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"never","split":true})", "Hey friend ", {"Hey", "▁friend", "▁"}},
      {R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":false})", "Hey friend", {"▁Hey▁friend"}},
      {R"({"type":"Metaspace","replacement":"_","add_prefix_space":true})", "a b_c", {"_a", "_b", "_c"}},
      {R"({"type":"Metaspace","replacement":"_","add_prefix_space":false,"prepend_scheme":"never"})", "a b_c", {"a", "_b", "_c"}},
      {R"({"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true}]})", "Hey you  x", {"▁Hey", "you", "x"}},
      {R"({"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true}]})", " Hey", {"Hey"}},
      {R"({"type":"Sequence","pretokenizers":[{"type":"Whitespace"},{"type":"Digits","individual_digits":true}]})", "Call 911!", {"Call", "9", "1", "1", "!"}},
      {R"({"type":"Sequence","pretokenizers":[{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false},{"type":"Split","pattern":{"String":"Ġ"},"behavior":"MergedWithNext","invert":false}]})", "é b c", {"Ã\302\251", "Ġb", "Ġc"}},
      {R"({"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true}]})", "a1b", {"Ġa", "Ġ1", "Ġb"}},
      // clang-format on
  };
  for (const Case& c : cases)
    EXPECT_EQ(pieces_of(json::parse(c.description), c.text), c.expected) << c.description << " on " << c.text;
}

TEST(PreTokenizer, NullKeepsTheTextWhole) {
  EXPECT_EQ(pieces_of(nullptr, "a b"), (std::vector<std::string>{"a b"}));
  EXPECT_EQ(pieces_of(nullptr, ""), std::vector<std::string>());
}

TEST(PreTokenizer, FirstMeansTheFrontOfTheInput) {
  const json first = json::parse(R"({"type":"Metaspace","replacement":"_","prepend_scheme":"first"})");
  EXPECT_EQ(pieces_of(first, "a", true), (std::vector<std::string>{"_a"}));
  EXPECT_EQ(pieces_of(first, "a", false), (std::vector<std::string>{"a"}));
}

TEST(PreTokenizer, UnknownIsNamed) {
  const auto message = [](const char* description) -> std::string {
    try {
      PreTokenizer made(json::parse(description));
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(message(R"({"type":"UnicodeScripts"})"), "tokenizer.json: unknown pre-tokenizer \"UnicodeScripts\"");
  EXPECT_EQ(message(R"({"type":"Split","pattern":{"String":"a"},"behavior":"Shuffled","invert":false})"),
            "tokenizer.json: unknown split behavior \"Shuffled\"");
  EXPECT_EQ(message(R"({"type":"Metaspace","replacement":"ab"})"),
            "tokenizer.json: \"replacement\" of a pre-tokenizer must be one character, not \"ab\"");
  EXPECT_EQ(message(R"({"type":"Metaspace","replacement":"_","prepend_scheme":"often"})"),
            "tokenizer.json: unknown prepend_scheme \"often\"");
  EXPECT_EQ(message(R"({"type":"Metaspace","replacement":"_","prepend_scheme":"first","add_prefix_space":false})"),
            "tokenizer.json: add_prefix_space of a pre-tokenizer contradicts its prepend_scheme");
}

// Matching fails with an error, not by running on, when a pattern explodes.
TEST(PreTokenizer, ExplodingPatternsEnd) {
  const std::string text(5000, 'a');
  EXPECT_THROW(
      pieces_of(json::parse(R"({"type":"Split","pattern":{"Regex":"^(a+)+$"},"behavior":"Isolated","invert":false})"),
                text + "c"),
      Error);
}

}  // namespace
}  // namespace fathom
