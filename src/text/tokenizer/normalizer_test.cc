#include "text/tokenizer/normalizer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace fathom {
namespace {

using nlohmann::json;

// Expected values are those of the Rust library (Python package tokenizers 0.23.3).
struct Case {
  const char* description;
  const char* text;
  const char* expected;
};
constexpr Case kCases[] = {
    // clang-format off
    {R"({"type":"NFC"})", "e\314\201 A\314\212 \341\204\200\341\205\241\341\206\250", "é Å 각"},
    {R"({"type":"NFC"})", "\340\245\230\342\204\246", "\340\244\225\340\244\274Ω"},
    {R"({"type":"NFC"})", "a\314\243\314\207\314\201x", "\341\272\241\314\207\314\201x"},
    {R"({"type":"NFD"})", "é\341\272\233\314\243 각", "e\314\201ſ\314\243\314\207 \341\204\200\341\205\241\341\206\250"},
    {R"({"type":"NFD"})", "\357\254\201Ω", "\357\254\201Ω"},
    {R"({"type":"NFKC"})", "\357\254\201 \342\221\241 \357\275\266\357\276\236 \302\275 \341\272\233\314\243", "fi 2 ガ 1\342\201\2042 \341\271\251"},
    {R"({"type":"NFKC"})", "\357\275\201\357\275\202\357\275\203\343\200\200", "abc "},
    {R"({"type":"NFKD"})", "\357\254\201 \342\221\241 \357\275\266\357\276\236 é", "fi 2 ガ e\314\201"},
    {R"({"type":"Lowercase"})", "ÀÉ İstanbul ΣΑΣ \341\272\236 \307\204", "àé i\314\207stanbul σασ ß \307\206"},
    {R"({"type":"Lowercase"})", "ABC中文", "abc中文"},
    {R"({"type":"Strip","strip_left":true,"strip_right":false})", " \t\343\200\200ab \302\240", "ab \302\240"},
    {R"({"type":"Strip","strip_left":false,"strip_right":true})", " \t\343\200\200ab \302\240\342\200\250", " \t\343\200\200ab"},
    {R"({"type":"Strip","strip_left":true,"strip_right":true})", "\n ab\342\200\213 \n", "ab\342\200\213"},
    {R"({"type":"Strip","strip_left":true,"strip_right":true})", "   ", ""},
    {R"({"type":"Strip","strip_left":true,"strip_right":true})", "", ""},
    {R"({"type":"StripAccents"})", "e\314\201a\314\210\340\244\276\342\203\235!", "ea!"},
    {R"({"type":"StripAccents"})", "é", "é"},
    {R"({"type":"Prepend","prepend":"▁"})", "abc", "▁abc"},
    {R"({"type":"Prepend","prepend":"▁"})", " abc", "▁ abc"},
    {R"({"type":"Prepend","prepend":"▁"})", "", ""},
    {R"({"type":"Replace","pattern":{"String":"aa"},"content":"b"})", "aaaaa", "bba"},
    {R"({"type":"Replace","pattern":{"String":"aa"},"content":"b"})", "xaay", "xby"},
    {R"({"type":"Replace","pattern":{"Regex":" {2,}|[\\n\\r]+"},"content":"."})", "a  b\n\r c   ", "a.b. c."},
    {R"({"type":"Replace","pattern":{"Regex":"x*"},"content":"-"})", "axxb", "-a-b-"},
    {R"({"type":"Replace","pattern":{"Regex":"x*"},"content":"-"})", "中", "-中-"},
    {R"({"type":"Replace","pattern":{"String":" "},"content":"▁"})", " a  b ", "▁a▁▁b▁"},
    {R"({"type":"Replace","pattern":{"Regex":"$"},"content":"l"})", "", ""},
    {R"({"type":"Replace","pattern":{"Regex":"(?i:ab)|\\s+$"},"content":""})", "ABcaB  \n  ", "c"},
    {R"({"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},{"type":"Replace","pattern":{"String":" "},"content":"▁"}]})", "Hello  world", "▁Hello▁▁world"},
    {R"({"type":"Sequence","normalizers":[]})", "as it is", "as it is"},
    {R"({"type":"Sequence","normalizers":[{"type":"NFD"},{"type":"StripAccents"},{"type":"Lowercase"}]})", "Crème BRÛLÉE", "creme brulee"},
    // clang-format on
};

std::string normalized(const json& description, std::string text) {
  NormalizedText value{std::move(text)};
  if (const auto normalizer = make_normalizer(description)) normalizer->apply(value);
  return value.text;
}

TEST(Normalizer, EqualsTheRustLibrary) {
  for (const Case& c : kCases)
    EXPECT_EQ(normalized(json::parse(c.description), c.text), c.expected) << c.description << " on " << c.text;
}

TEST(Normalizer, NullAndEmptyAreNothing) {
  EXPECT_EQ(make_normalizer(nullptr), nullptr);
  EXPECT_EQ(make_normalizer(json::parse(R"({"type":"Sequence","normalizers":[]})")), nullptr);
}

TEST(Normalizer, UnknownIsNamed) {
  try {
    make_normalizer(json::parse(R"({"type":"Sequence","normalizers":[{"type":"Frobnicate"}]})"));
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "tokenizer.json: unknown normalizer \"Frobnicate\"");
  }
}

TEST(Normalizer, BadDescriptionsAreErrors) {
  for (const char* bad :
       {"1", "[]", "{}", R"({"type":3})", R"({"type":"Prepend"})", R"({"type":"Prepend","prepend":1})",
        R"({"type":"Strip","strip_left":1,"strip_right":true})", R"({"type":"Replace","content":"x"})",
        R"({"type":"Replace","pattern":"x","content":"x"})",
        R"({"type":"Replace","pattern":{"Regex":"("},"content":"x"})", R"({"type":"Sequence","normalizers":{}})"})
    EXPECT_THROW(make_normalizer(json::parse(bad)), Error) << bad;
  json deep = json::parse(R"({"type":"NFC"})");
  for (int i = 0; i < 100; ++i) deep = json{{"type", "Sequence"}, {"normalizers", json::array({deep})}};
  EXPECT_THROW(make_normalizer(deep), Error);
}

// A run of combining marks in falling order is the worst case for sorting by exchange.
TEST(Normalizer, LongRunsOfMarksAreNotQuadratic) {
  std::string text = "a";
  for (int i = 0; i < 200000; ++i) text += i % 2 == 0 ? "\u0301" : "\u0323";
  const auto start = std::chrono::steady_clock::now();
  const std::string out = normalized(json::parse(R"({"type":"NFC"})"), text);
  EXPECT_EQ(out.substr(0, 7), "\u1EA1\u0323\u0323");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

}  // namespace
}  // namespace fathom
