#include "text/tokenizer/tiktoken_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/file.h"
#include "text/tokenizer/stream_decoder.h"
#include "text/tokenizer/tokenizer.h"

namespace fathom {
namespace {

using nlohmann::json;

std::filesystem::path folder() {
  const char* source = std::getenv("FATHOM_SOURCE_DIR");
  return std::filesystem::path(source == nullptr ? "." : source) / "tests" / "data" / "tiktoken";
}

// Ids from the Python package tiktoken, with special tokens and without.
TEST(Tiktoken, EqualsThePythonPackage) {
  const Tokenizer tokenizer = Tokenizer::load(folder());
  std::ifstream lines(folder() / "expected.jsonl");
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const json c = json::parse(line);
    const auto text = c["text"].get<std::string>();
    const auto ids = c["ids"].get<std::vector<TokenId>>(), plain = c["plain"].get<std::vector<TokenId>>();
    EXPECT_EQ(tokenizer.encode(text), ids) << line;
    EXPECT_EQ(tokenizer.encode(text, Tokenizer::AddedTokens::ignore), plain) << line;
    EXPECT_EQ(tokenizer.decode(ids, false), text) << line;
    StreamDecoder stream(tokenizer, false);
    std::string joined;
    for (const TokenId id : ids) joined += stream.push(id);
    EXPECT_EQ(joined + stream.finish(), text) << line;
  }
  EXPECT_EQ(count, 400);
}

TEST(Tiktoken, SpecialTokens) {
  const Tokenizer tokenizer = Tokenizer::load(folder());
  const int base = tokenizer.vocab_size() - 256;
  EXPECT_EQ(tokenizer.bos_id(), base);
  EXPECT_EQ(tokenizer.eos_id(), base + 1);
  EXPECT_EQ(tokenizer.pad_id(), base + 255);
  EXPECT_FALSE(tokenizer.adds_bos());
  EXPECT_EQ(tokenizer.token_text(base + 7), "<|reserved_token_" + std::to_string(base + 7) + "|>");
  EXPECT_TRUE(tokenizer.is_special(base + 7));
  EXPECT_FALSE(tokenizer.is_special(base + 11));
  EXPECT_EQ(tokenizer.decode(std::vector<TokenId>{base, base + 11}), "<|tool_call_begin|>");
  EXPECT_EQ(tokenizer.encode("Hello"), tokenizer.encode_with_bos("Hello"));
}

// All bytes, then tokens given by number behind them.
std::string ranks(const std::string& more) {
  constexpr const char* kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (unsigned byte = 0; byte < 256; ++byte)
    text += std::string{kLetters[byte >> 2], kLetters[(byte & 3) << 4]} + "== " + std::to_string(byte) + "\n";
  return text + more;
}

// Ids from the Python package: it joins by the rank of what comes out, leftmost first.
TEST(Tiktoken, EveryCutOfATokenIsAMerge) {
  const std::string code =
      "class T:\n  pat_str = \"|\".join(\n    [\n r\"\"\"[a-z]+-?\"\"\",\n   r\"\"\"[^a-z]+\"\"\",\n ]\n )\n";
  const auto ids = [&](const std::string& more, const std::string& text) {
    return Tokenizer::parse_tiktoken(ranks(more), {}, code).encode(text);
  };
  EXPECT_EQ(ids("YWE= 256\nYWFh 257\n", "aaaaa"), (std::vector<TokenId>{256, 257}));
  EXPECT_EQ(ids("YWE= 257\nYWFh 256\n", "aaaaa"), (std::vector<TokenId>{256, 257}));
  EXPECT_EQ(ids("YWI= 256\nYmE= 257\nYWJh 258\n", "abab"), (std::vector<TokenId>{256, 256}));
  EXPECT_EQ(ids("YmE= 256\nYWJh 257\n", "abab"), (std::vector<TokenId>{257, 'b'}));
  EXPECT_EQ(ids("YS0= 256\r\n\r\nLWE= 257\r\n", "a-a"), (std::vector<TokenId>{256, 'a'}));
  EXPECT_EQ(ids("YWJj 256\n", "abc"), (std::vector<TokenId>{256})) << "a token that no merge leads to";
  EXPECT_EQ(ids("YWJj 256\n", "abcd"), (std::vector<TokenId>{'a', 'b', 'c', 'd'}));
}

TEST(Tiktoken, LongRunsAreLinear) {
  const Tokenizer tokenizer = Tokenizer::load(folder());
  for (const char* part : {"a", "中", " ", "\n", "xY", "1", "?"}) {
    std::string text;
    while (text.size() < 200000) text += part;
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

TEST(Tiktoken, WrongFilesAreNamed) {
  const auto message = [](const std::function<void()>& act) -> std::string {
    try {
      act();
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  const auto read = [&](const std::string& model, const std::string& config = {}, const std::string& code = {}) {
    return message([&] { Tokenizer::parse_tiktoken(model, config, code); });
  };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  EXPECT_EQ(read(ranks("")), "no error");
  has(read(""), "tiktoken.model is empty");
  has(read("YQ== 0\n"), "the byte 0x00 has no token");
  has(read("YQ==\n"), "line 1 must be BASE64 and a rank");
  has(read("YQ== 0\nYg== x\n"), "line 2");
  has(read("YQ= 0\n"), "line 1");
  has(read("Y!== 0\n"), "line 1");
  has(read("YQ== -1\n"), "line 1");
  has(read("YQ== 99999999\n"), "line 1");
  has(read(" 5\n"), "line 1");
  has(read(ranks("YQ== 256\n")), "rank 256 has the bytes of rank 97");
  has(read(ranks("YWI= 97\n")), "97");
  has(read(ranks(""), "[]"), "tokenizer_config.json");
  has(read(ranks(""), R"({"added_tokens_decoder": []})"), "added_tokens_decoder must be an object");
  has(read(ranks(""), R"({"added_tokens_decoder": {"x": {"content": "a"}}})"), "\"x\"");
  has(read(ranks(""), R"({"added_tokens_decoder": {"300": {"content": 1}}})"), "\"300\"");
  has(read(ranks(""), {}, "import tiktoken"), "no pattern");
  has(read(ranks(""), {}, "pat_str = \"|\".join([\"a\"])"), "no list of raw strings");
  has(read(ranks(""), {}, "pat_str = \"|\".join([r\"\"\"a"), "unclosed string");
  has(read(ranks(""), {}, "pat_str = \"|\".join([])"), "no list of raw strings");
}

}  // namespace
}  // namespace fathom
