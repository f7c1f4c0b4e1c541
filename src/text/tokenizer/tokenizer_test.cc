#include "text/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/check.h"
#include "text/tokenizer/stream_decoder.h"
#include "text/unicode/utf8.h"

namespace fathom {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

fs::path environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? fs::path() : fs::path(value);
}

fs::path shipped(const char* name) { return environment("FATHOM_TEST_DATA") / "tokenizers" / name; }

// Text to ids, ids to text at once and one by one, for every line of expected.jsonl.
void expect_equal(const fs::path& model, const fs::path& expected) {
  const Tokenizer tokenizer = Tokenizer::load(model);
  std::ifstream lines(expected);
  ASSERT_TRUE(lines) << expected;
  std::string line;
  int count = 0, different = 0;
  while (std::getline(lines, line) && different < 5) {
    ++count;
    const json c = json::parse(line);
    const auto text = c["text"].get<std::string>();
    const auto ids = c["ids"].get<std::vector<TokenId>>();
    const auto decoded = c["decoded"].get<std::string>();
    StreamDecoder stream(tokenizer);
    std::string joined;
    for (const TokenId id : ids) {
      const std::string part = stream.push(id);
      EXPECT_TRUE(is_valid_utf8(part)) << line;
      joined += part;
    }
    joined += stream.finish();
    const bool same = tokenizer.encode(text) == ids && tokenizer.decode(ids) == decoded && joined == decoded;
    EXPECT_TRUE(same) << "line " << count << ": " << line;
    different += same ? 0 : 1;
  }
  EXPECT_EQ(count, 1500);
}

TEST(Tokenizer, DeepSeekV3EqualsTheRustLibrary) {
  expect_equal(shipped("deepseek-v3"), shipped("deepseek-v3") / "expected.jsonl");
}

TEST(Tokenizer, TinyEqualsTheRustLibrary) {
  expect_equal(environment("FATHOM_SOURCE_DIR") / "models" / "tiny", shipped("tiny") / "expected.jsonl");
}

class Foreign : public testing::TestWithParam<const char*> {};

TEST_P(Foreign, EqualsTheRustLibrary) {
  const fs::path folder = environment("FATHOM_FOREIGN_TOKENIZERS");
  if (folder.empty()) GTEST_SKIP() << "FATHOM_FOREIGN_TOKENIZERS does not name a folder with " << GetParam();
  expect_equal(folder / GetParam(), folder / GetParam() / "expected.jsonl");
}

INSTANTIATE_TEST_SUITE_P(Tokenizer, Foreign, testing::Values("qwen3", "llama2"));

class Tiny : public testing::Test {
 protected:
  const Tokenizer tokenizer_ = Tokenizer::load(environment("FATHOM_SOURCE_DIR") / "models" / "tiny");
};

TEST_F(Tiny, OneBosInFront) {
  EXPECT_EQ(tokenizer_.bos_token(), "<｜begin▁of▁sentence｜>");
  EXPECT_EQ(tokenizer_.bos_id(), 0);
  EXPECT_EQ(tokenizer_.eos_id(), 1);
  EXPECT_EQ(tokenizer_.pad_id(), 1);
  EXPECT_TRUE(tokenizer_.adds_bos());
  EXPECT_FALSE(tokenizer_.adds_eos());
  const auto hello = tokenizer_.encode("Hello");
  auto with = hello;
  with.insert(with.begin(), 0);
  EXPECT_EQ(tokenizer_.encode_with_bos("Hello"), with);
  EXPECT_EQ(tokenizer_.encode_with_bos("<｜begin▁of▁sentence｜>Hello"), with);
  EXPECT_EQ(tokenizer_.encode_with_bos(""), std::vector<TokenId>{0});
}

TEST_F(Tiny, IdsOutsideTheVocabularyStandForNothing) {
  EXPECT_EQ(tokenizer_.vocab_size(), 4096);
  for (const TokenId id : {4096, 129279, 2147483647, -1}) {
    EXPECT_EQ(tokenizer_.decode(std::vector<TokenId>{id}), "");
    EXPECT_EQ(tokenizer_.token_text(id), "");
    EXPECT_EQ(tokenizer_.token_bytes(id), "");
    EXPECT_FALSE(tokenizer_.is_special(id));
  }
}

TEST_F(Tiny, AddedTokensAreIdsOnlyWhereWanted) {
  const int user = tokenizer_.token_id("<｜User｜>").value();
  EXPECT_FALSE(tokenizer_.is_special(user));
  EXPECT_TRUE(tokenizer_.is_special(0));
  EXPECT_EQ(tokenizer_.encode("<｜User｜>"), std::vector<TokenId>{user});
  const auto plain = tokenizer_.encode("<｜User｜>", Tokenizer::AddedTokens::ignore);
  EXPECT_GT(plain.size(), 3u);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), user), 0);
  EXPECT_EQ(tokenizer_.decode(plain), "<｜User｜>");
  EXPECT_EQ(tokenizer_.decode(std::vector<TokenId>{0, user}), "<｜User｜>");
  EXPECT_EQ(tokenizer_.decode(std::vector<TokenId>{0, user}, false), "<｜begin▁of▁sentence｜><｜User｜>");
  EXPECT_FALSE(tokenizer_.token_id("no such token").has_value());
}

TEST_F(Tiny, InvalidBytesCountAsReplacementCharacters) {
  EXPECT_EQ(tokenizer_.encode("a\xFF\xE4\xB8z"), tokenizer_.encode("a\uFFFD\uFFFDz"));
  EXPECT_EQ(tokenizer_.encode("\xED\xA0\x80"), tokenizer_.encode("\uFFFD\uFFFD\uFFFD"));
  EXPECT_EQ(tokenizer_.encode("\xF4\x90\x80\x80"), tokenizer_.encode("\uFFFD\uFFFD\uFFFD\uFFFD"));
}

TEST_F(Tiny, ExplainShowsPieces) {
  const auto rows = tokenizer_.explain("Hi 1234<think>");
  std::vector<std::string> pieces;
  for (const auto& row : rows) pieces.push_back(row.piece);
  EXPECT_EQ(pieces, (std::vector<std::string>{"Hi", " ", "123", "4", "<think>"}));
  EXPECT_TRUE(rows.back().added);
  EXPECT_FALSE(rows.front().added);
}

TEST_F(Tiny, ThreadsMayShareIt) {
  const std::string text = "The quick brown fox jumps over 12345 lazy dogs, 中文也一样。\n";
  const auto expected = Tokenizer::load(environment("FATHOM_SOURCE_DIR") / "models" / "tiny").encode(text);
  std::vector<std::thread> threads;
  std::vector<TokenId> wrong(4, 0);
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) wrong[t] += tokenizer_.encode(text) != expected;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, (std::vector<TokenId>{0, 0, 0, 0}));
}

// A quadratic step would take minutes at this length.
TEST_F(Tiny, LongRunsAreNearLinear) {
  const auto start = std::chrono::steady_clock::now();
  std::string text(1 << 20, 'a');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + (i * i / 7) % 26);
  for (const std::string& long_text :
       {std::string(200000, 'a'), text, std::string(1 << 20, ' '), std::string(1 << 20, '\n'),
        std::string(1 << 20, '!'), std::string(1 << 20, '1'), std::string(1 << 20, '\xFF')}) {
    const auto ids = tokenizer_.encode(long_text);
    EXPECT_EQ(tokenizer_.decode(ids), is_valid_utf8(long_text) ? long_text : to_valid_utf8(long_text));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(TokenizerConfig, ForgivesWhatItDoesNotNeedAndNamesWhatIsWrong) {
  constexpr const char* kModel = R"({"model":{"vocab":{"<s>":0,"</s>":1,"a":2},"merges":[]}})";
  const auto tokenizer = Tokenizer::parse(
      kModel, R"({"tokenizer_class":"NoSuchClass","bos_token":"<s>","eos_token":{"content":"</s>"},"pad_token":null})");
  EXPECT_EQ(tokenizer.bos_id(), 0);
  EXPECT_EQ(tokenizer.eos_id(), 1);
  EXPECT_FALSE(tokenizer.pad_id().has_value());
  EXPECT_FALSE(tokenizer.adds_bos());
  EXPECT_EQ(tokenizer.encode_with_bos("a"), std::vector<TokenId>{2});
  const auto message = [&](const char* config) -> std::string {
    try {
      Tokenizer::parse(kModel, config);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(message(R"({"bos_token":"<bos>","add_bos_token":true})"),
            "tokenizer_config.json asks for a BOS, but its bos_token \"<bos>\" is not in the vocabulary");
  EXPECT_EQ(message(R"({"bos_token":3})"),
            "tokenizer_config.json: \"bos_token\" must be a string or an object with \"content\", not 3");
  EXPECT_EQ(message("[]"), "tokenizer_config.json must be a JSON object");
  EXPECT_NE(message("{").find("tokenizer_config.json is not valid JSON"), std::string::npos);
}

TEST(PostProcessor, TemplatesSayWhatStandsAround) {
  const std::string head = R"({"model":{"vocab":{"<s>":0,"</s>":1,"a":2},"merges":[]},"post_processor":)";
  const std::string one =
      R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},)"
      R"({"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"</s>","type_id":0}}],"pair":[],)"
      R"("special_tokens":{"<s>":{"id":"<s>","ids":[0]},"</s>":{"id":"</s>","ids":[1]}}})";
  const auto tokenizer = Tokenizer::parse(
      head + R"({"type":"Sequence","processors":[{"type":"ByteLevel","trim_offsets":true},)" + one + "]}}");
  EXPECT_EQ(tokenizer.encode_with_template("a"), (std::vector<TokenId>{0, 2, 1}));
  EXPECT_TRUE(tokenizer.adds_bos());
  EXPECT_EQ(tokenizer.encode_with_bos("a"), (std::vector<TokenId>{0, 2}));
  const std::string twice = R"({"type":"Sequence","processors":[)" + one + "," + one + "]}}";
  EXPECT_THROW(Tokenizer::parse(head + twice), Error);
  EXPECT_THROW(Tokenizer::parse(head + R"({"type":"RobertaProcessing"}})"), Error);
  EXPECT_THROW(Tokenizer::parse(head + R"({"type":"TemplateProcessing","single":[]}})"), Error);
  EXPECT_THROW(Tokenizer::parse(head + R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}]}})"),
               Error);
}

TEST(Tokenizer, MissingFileIsNamed) {
  try {
    Tokenizer::load("/no/such/folder");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "model /no/such/folder does not exist");
  }
}

TEST(Tokenizer, BrokenFilesAreErrors) {
  for (const char* bad :
       {"", "[", "[]", "null", "{}", R"({"model":[]})", R"({"model":{"vocab":[],"merges":{}}})", "\xFF",
        R"({"model":{"vocab":{"a":0},"merges":[]},"added_tokens":{}})",
        R"({"model":{"vocab":{"a":0},"merges":[]},"added_tokens":[{"id":1,"content":"x"}]})",
        R"({"model":{"vocab":{"a":0,"a":{}},"merges":[]}})", R"({"model":{"vocab":{"a":1.5},"merges":[]}})"})
    EXPECT_THROW(Tokenizer::parse(bad), Error) << bad;
}

}  // namespace
}  // namespace fathom
