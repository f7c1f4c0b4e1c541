#include "text/tokenizer/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/check.h"
#include "text/tokenizer/tokenizer.h"

namespace fathom {
namespace {

// Whole small tokenizers. In the descriptions F stands for the five flags of an added token, all false, and @V for the
// start of a model with a vocabulary. Expected values are those of the Rust library (Python package tokenizers 0.23.3).
struct Case {
  const char* name;
  const char* description;
  const char* text;
  std::vector<TokenId> ids;
  const char* decoded;
};

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

std::string written_out(const char* description) {
  const std::string flags = replaced(
      description, "F,", R"("single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":false,)");
  return replaced(flags, "@V",
                  R"("model":{"type":"BPE","vocab":{"<unk>":0,"a":1,"b":2,"c":3,"ab":4,"abc":5,"bc":6,)"
                  R"(" ":7,"x":8,"d":9)");
}

TEST(Bpe, EqualsTheRustLibrary) {
  const Case
      cases
          [] =
              {
                  // clang-format off
      {"merges as strings",
       R"({@V},"merges":["a b","ab c","b c"]}})",
       "abcabbc", {5, 4, 6}, "abc ab bc"},
      {"merges as strings",
       R"({@V},"merges":["a b","ab c","b c"]}})",
       "cab", {3, 4}, "c ab"},
      {"merges as strings",
       R"({@V},"merges":["a b","ab c","b c"]}})",
       "aabbcc", {1, 4, 6, 3}, "a ab bc c"},
      {"merges as pairs",
       R"({@V},"merges":[["b","c"],["a","b"],["ab","c"]]}})",
       "abcabbc", {1, 6, 4, 6}, "a bc ab bc"},
      {"unknown dropped",
       R"({@V},"merges":["a b","ab c","b c"]}})",
       "aZb", {4}, "ab"},
      {"unk",
       R"({@V},"merges":["a b","ab c","b c"],"unk_token":"<unk>"}})",
       "aZZbQ", {1, 0, 0, 2, 0}, "a <unk> <unk> b <unk>"},
      {"unk",
       R"({@V},"merges":["a b","ab c","b c"],"unk_token":"<unk>"}})",
       "中", {0}, "<unk>"},
      {"fused unk",
       R"({@V},"merges":["a b","ab c","b c"],"unk_token":"<unk>","fuse_unk":true}})",
       "aZZbQ", {1, 0, 2, 0}, "a <unk> b <unk>"},
      {"byte fallback",
       R"({@V,"<0xC3>":20,"<0xA9>":21,"<0x5A>":22},"merges":["a b","ab c","b c"],"unk_token":"<unk>","byte_fallback":true,"fuse_unk":true}})",
       "aéb", {1, 20, 21, 2}, "a <0xC3> <0xA9> b"},
      {"byte fallback",
       R"({@V,"<0xC3>":20,"<0xA9>":21,"<0x5A>":22},"merges":["a b","ab c","b c"],"unk_token":"<unk>","byte_fallback":true,"fuse_unk":true}})",
       "Zé中Za", {22, 20, 21, 22, 0, 1}, "<0x5A> <0xC3> <0xA9> <0x5A> <unk> a"},
      {"byte fallback",
       R"({@V,"<0xC3>":20,"<0xA9>":21,"<0x5A>":22},"merges":["a b","ab c","b c"],"unk_token":"<unk>","byte_fallback":true,"fuse_unk":true}})",
       "中Zb", {22, 0, 2}, "<0x5A> <unk> b"},
      {"ignore_merges",
       R"({@V,"cab":30},"merges":["a b","ab c","b c"],"ignore_merges":true}})",
       "cab", {30}, "cab"},
      {"ignore_merges",
       R"({@V,"cab":30},"merges":["a b","ab c","b c"],"ignore_merges":true}})",
       "cabc", {3, 5}, "c abc"},
      {"prefix and suffix",
       R"({"model":{"type":"BPE","vocab":{"a":0,"##b":1,"##b</w>":2,"a##":9,"ab":3,"ab</w>":4,"b</w>":5,"a</w>":6},"merges":[["a","##b"],["a","##b</w>"]],"continuing_subword_prefix":"##","end_of_word_suffix":"</w>"}})",
       "ab", {4}, "ab</w>"},
      {"prefix and suffix",
       R"({"model":{"type":"BPE","vocab":{"a":0,"##b":1,"##b</w>":2,"a##":9,"ab":3,"ab</w>":4,"b</w>":5,"a</w>":6},"merges":[["a","##b"],["a","##b</w>"]],"continuing_subword_prefix":"##","end_of_word_suffix":"</w>"}})",
       "abb", {3, 2}, "ab ##b</w>"},
      {"prefix and suffix",
       R"({"model":{"type":"BPE","vocab":{"a":0,"##b":1,"##b</w>":2,"a##":9,"ab":3,"ab</w>":4,"b</w>":5,"a</w>":6},"merges":[["a","##b"],["a","##b</w>"]],"continuing_subword_prefix":"##","end_of_word_suffix":"</w>"}})",
       "a", {6}, "a</w>"},
      {"prefix and suffix",
       R"({"model":{"type":"BPE","vocab":{"a":0,"##b":1,"##b</w>":2,"a##":9,"ab":3,"ab</w>":4,"b</w>":5,"a</w>":6},"merges":[["a","##b"],["a","##b</w>"]],"continuing_subword_prefix":"##","end_of_word_suffix":"</w>"}})",
       "bb", {2}, "##b</w>"},
      {"added plain",
       R"({"added_tokens":[{F,"id":10,"content":"[T]"},{F,"id":11,"content":"[T]x"},{"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true,"id":12,"content":"bc"}],@V},"merges":["a b","ab c","b c"]}})",
       "a[T]b[T]xa", {1, 10, 2, 11, 1}, "a [T] b [T]x a"},
      {"added plain",
       R"({"added_tokens":[{F,"id":10,"content":"[T]"},{F,"id":11,"content":"[T]x"},{"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true,"id":12,"content":"bc"}],@V},"merges":["a b","ab c","b c"]}})",
       "abc", {1, 6}, "a"},
      {"added lstrip rstrip",
       R"({"added_tokens":[{"single_word":false,"lstrip":true,"rstrip":false,"normalized":false,"special":false,"id":10,"content":"[L]"},{"single_word":false,"lstrip":false,"rstrip":true,"normalized":false,"special":false,"id":11,"content":"[R]"}],@V},"merges":["a b","ab c","b c"]}})",
       "a  [L]  [R]  b[R][L]", {1, 10, 7, 7, 11, 2, 11, 10}, "a [L]     [R] b [R] [L]"},
      {"added lstrip rstrip",
       R"({"added_tokens":[{"single_word":false,"lstrip":true,"rstrip":false,"normalized":false,"special":false,"id":10,"content":"[L]"},{"single_word":false,"lstrip":false,"rstrip":true,"normalized":false,"special":false,"id":11,"content":"[R]"}],@V},"merges":["a b","ab c","b c"]}})",
       " [R] [L]", {7, 11, 10}, "  [R] [L]"},
      {"added token whose spaces another took",
       R"({"added_tokens":[{"single_word":false,"lstrip":true,"rstrip":true,"normalized":false,"special":false,"id":10,"content":"  "}],@V},"merges":["a b","ab c","b c"]}})",
       "a      b", {1, 10, 2}, "a    b"},
      {"added single word",
       R"({"added_tokens":[{"single_word":true,"lstrip":false,"rstrip":false,"normalized":false,"special":false,"id":10,"content":"ab"}],@V},"merges":["a b","ab c","b c"],"unk_token":"<unk>"}})",
       "ab abc cab x ab", {4, 7, 5, 7, 3, 4, 7, 8, 7, 4}, "ab   abc   c ab   x   ab"},
      {"added single word",
       R"({"added_tokens":[{"single_word":true,"lstrip":false,"rstrip":false,"normalized":false,"special":false,"id":10,"content":"ab"}],@V},"merges":["a b","ab c","b c"],"unk_token":"<unk>"}})",
       "ab.ab-ab_ab", {4, 0, 4, 0, 4, 0, 4}, "ab <unk> ab <unk> ab <unk> ab"},
      {"added normalized",
       R"({"added_tokens":[{"single_word":false,"lstrip":false,"rstrip":false,"normalized":true,"special":false,"id":10,"content":"[T]"},{F,"id":11,"content":"[U]"}],"normalizer":{"type":"Lowercase"},@V},"merges":["a b","ab c","b c"]}})",
       "A[t]B[T]", {1, 10, 2, 10}, "a [t] b [t]"},
      {"added normalized",
       R"({"added_tokens":[{"single_word":false,"lstrip":false,"rstrip":false,"normalized":true,"special":false,"id":10,"content":"[T]"},{F,"id":11,"content":"[U]"}],"normalizer":{"type":"Lowercase"},@V},"merges":["a b","ab c","b c"]}})",
       "[u]C[U]", {3, 11}, "c [U]"},
      {"prepend on every segment",
       R"({"added_tokens":[{"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true,"id":12,"content":"<s>"}],"normalizer":{"type":"Prepend","prepend":"▁"},@V,"▁":10,"▁a":11},"merges":["a b","ab c","b c","▁ a"]}})",
       "a<s>a", {11, 12, 11}, "▁a ▁a"},
      {"prepend on every segment",
       R"({"added_tokens":[{"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true,"id":12,"content":"<s>"}],"normalizer":{"type":"Prepend","prepend":"▁"},@V,"▁":10,"▁a":11},"merges":["a b","ab c","b c","▁ a"]}})",
       "<s>", {12}, ""},
      {"metaspace first",
       R"({"added_tokens":[{"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true,"id":12,"content":"<s>"}],"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":false},@V,"▁":10,"▁a":11},"merges":["a b","ab c","b c","▁ a"]}})",
       "a<s>a", {11, 12, 1}, "▁a a"},
      {"metaspace first",
       R"({"added_tokens":[{"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true,"id":12,"content":"<s>"}],"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":false},@V,"▁":10,"▁a":11},"merges":["a b","ab c","b c","▁ a"]}})",
       "<s>a", {12, 1}, "a"},
      {"metaspace first",
       R"({"added_tokens":[{"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true,"id":12,"content":"<s>"}],"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":false},@V,"▁":10,"▁a":11},"merges":["a b","ab c","b c","▁ a"]}})",
       " a", {11}, "▁a"},
      {"metaspace first after strip",
       R"({"normalizer":{"type":"Strip","strip_left":true,"strip_right":false},"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true},@V,"▁":10,"▁a":11},"merges":["a b","ab c","b c","▁ a"]}})",
       "a", {11}, "▁a"},
      {"metaspace first after strip",
       R"({"normalizer":{"type":"Strip","strip_left":true,"strip_right":false},"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true},@V,"▁":10,"▁a":11},"merges":["a b","ab c","b c","▁ a"]}})",
       " a", {1}, "a"},
      {"metaspace first after replace",
       R"({"normalizer":{"type":"Replace","pattern":{"Regex":"a+"},"content":"b"},"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":false},@V,"▁":10},"merges":[]}})",
       "aab", {2, 2}, "b b"},
      {"metaspace first after replace",
       R"({"normalizer":{"type":"Replace","pattern":{"Regex":"a+"},"content":"b"},"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":false},@V,"▁":10},"merges":[]}})",
       "ab", {10, 2, 2}, "▁ b b"},
      {"added id in vocabulary",
       R"({"added_tokens":[{"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true,"id":5,"content":"abc"}],@V},"merges":["a b","ab c","b c"]}})",
       "abcab", {5, 4}, "ab"},
                  // clang-format on
              };
  for (const Case& c : cases) {
    const Tokenizer tokenizer = Tokenizer::parse(written_out(c.description));
    EXPECT_EQ(tokenizer.encode(c.text), c.ids) << c.name << " on " << c.text;
    EXPECT_EQ(tokenizer.encode(c.text), c.ids) << c.name << ", a second time, on " << c.text;
    EXPECT_EQ(tokenizer.decode(c.ids), c.decoded) << c.name;
  }
}

TEST(Bpe, BadModelsAreErrors) {
  const auto message = [](const std::string& model) -> std::string {
    try {
      Tokenizer::parse(R"({"model":)" + model + "}");
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(message(R"({"type":"Unigram","vocab":[["a",-1.0]]})"),
            "tokenizer.json: unknown model \"Unigram\"; only BPE is known");
  EXPECT_EQ(message(R"({"type":"BPE","merges":[]})"), "tokenizer.json: the model lacks \"vocab\"");
  EXPECT_EQ(message(R"({"vocab":{"a":0},"merges":["a b"]})"),
            "tokenizer.json: the token \"b\" of merge 1 is not in the vocabulary");
  EXPECT_EQ(message(R"({"vocab":{"a":0,"b":1},"merges":[["a","b"]]})"),
            "tokenizer.json: the token \"ab\" of merge 1 is not in the vocabulary");
  EXPECT_EQ(message(R"({"vocab":{"a":0},"merges":["a a a"]})"), "tokenizer.json: merge 1 does not have two parts");
  EXPECT_EQ(message(R"({"vocab":{"a":0},"merges":[["a"]]})"), "tokenizer.json: merge 1 does not have two parts");
  EXPECT_EQ(message(R"({"vocab":{"a":0,"b":0},"merges":[]})"),
            "tokenizer.json: the id 0 is given to two tokens, \"a\" and \"b\"");
  EXPECT_EQ(message(R"({"vocab":{"a":99999999},"merges":[]})"),
            "tokenizer.json: the id 99999999 of the token \"a\" is outside 0..4194303");
  EXPECT_EQ(message(R"({"vocab":{"a":-1},"merges":[]})"),
            "tokenizer.json: model.vocab has a value of the wrong kind (number)");
  EXPECT_EQ(message(R"({"vocab":{"a":0},"merges":[],"unk_token":"<unk>"})"),
            "tokenizer.json: the unk_token \"<unk>\" is not in the vocabulary");
  EXPECT_EQ(message(R"({"vocab":{"a":0},"merges":[],"dropout":0.5})"),
            "tokenizer.json: a dropout other than 0 is for training, not supported here");
  EXPECT_NE(message(R"({"vocab":{"a":0},"merges":[)").find("not valid JSON at byte"), std::string::npos);
}

// A model of random merges over a few letters, deep enough that pieces of every length meet both ways of merging.
std::string random_model(std::mt19937& random, std::vector<std::string>& tokens,
                         std::vector<std::pair<int, int>>& merges) {
  tokens = {"a", "b", "c"};
  std::string vocab = R"("a":0,"b":1,"c":2)", rules;
  while (tokens.size() < 60) {
    const auto left = static_cast<int>(random() % tokens.size()), right = static_cast<int>(random() % tokens.size());
    const std::string joined = tokens[static_cast<std::size_t>(left)] + tokens[static_cast<std::size_t>(right)];
    if (joined.size() > 24 || std::find(tokens.begin(), tokens.end(), joined) != tokens.end()) continue;
    vocab += fmt::format(",\"{}\":{}", joined, tokens.size());
    rules += fmt::format("{}[\"{}\",\"{}\"]", rules.empty() ? "" : ",", tokens[static_cast<std::size_t>(left)],
                         tokens[static_cast<std::size_t>(right)]);
    tokens.push_back(joined);
    merges.emplace_back(left, right);
  }
  return R"({"model":{"vocab":{)" + vocab + R"(},"merges":[)" + rules + "]}}";
}

// What the rules say, word for word: apply the best merge at its first place until none applies.
std::vector<TokenId> merged_plainly(std::string_view text, const std::vector<std::pair<int, int>>& merges) {
  std::vector<TokenId> ids;
  for (const char c : text) ids.push_back(c - 'a');
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t rank = 0; rank < merges.size() && !changed; ++rank) {
      for (std::size_t i = 0; i + 1 < ids.size() && !changed; ++i) {
        if (ids[i] != merges[rank].first || ids[i + 1] != merges[rank].second) continue;
        ids[i] = static_cast<int>(rank) + 3;
        ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        changed = true;
      }
    }
  }
  return ids;
}

TEST(Bpe, ShortAndLongPiecesEqualThePlainRule) {
  std::mt19937 random(7);
  for (int model = 0; model < 20; ++model) {
    std::vector<std::string> tokens;
    std::vector<std::pair<int, int>> merges;
    const Tokenizer tokenizer = Tokenizer::parse(random_model(random, tokens, merges));
    for (int round = 0; round < 60; ++round) {
      std::string text;
      const std::size_t length = random() % 200;
      const unsigned letters = 1 + random() % 3;
      while (text.size() < length) text += static_cast<char>('a' + random() % letters);
      ASSERT_EQ(tokenizer.encode(text), merged_plainly(text, merges)) << text;
    }
  }
}

}  // namespace
}  // namespace fathom
