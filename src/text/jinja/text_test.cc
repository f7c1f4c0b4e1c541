// Strings as Python 3.11 treats them, and where their bytes came from.
#include "text/jinja/text.h"

#include <gtest/gtest.h>

#include "text/jinja/case.h"

namespace fathom::jinja {
namespace {

class JinjaText : public testing::Test {
 protected:
  const Str& text(std::string_view bytes, bool content = false) { return *make_str(rt_, bytes, content).str; }
  using Mapping = Value (*)(Runtime&, const Str&);
  std::string mapped(Mapping mapping, std::string_view bytes) {
    return std::string(mapping(rt_, text(bytes)).str->view());
  }

  Runtime rt_{Limits{}, ""};
};

TEST_F(JinjaText, CaseMappings) {
  struct Case {
    const char *text, *upper, *lower, *title, *capital, *swapped, *folded;
  };
  const Case cases[] = {
      {"Hello World", "HELLO WORLD", "hello world", "Hello World", "Hello world", "hELLO wORLD", "hello world"},
      {"straße", "STRASSE", "straße", "Straße", "Straße", "STRASSE", "strasse"},
      {"they're bill's", "THEY'RE BILL'S", "they're bill's", "They'Re Bill'S", "They're bill's", "THEY'RE BILL'S",
       "they're bill's"},
      {"ǆ ﬁ", "Ǆ FI", "ǆ ﬁ", "ǅ Fi", "ǅ ﬁ", "Ǆ FI", "ǆ fi"},
      {"ΑΣ ΑΣ.", "ΑΣ ΑΣ.", "ας ας.", "Ας Ας.", "Ας ας.", "ας ας.", "ασ ασ."},
      {"İi", "İI", "i̇i", "İi", "İi", "i̇I", "i̇i"},
      {"aBC dEF", "ABC DEF", "abc def", "Abc Def", "Abc def", "Abc Def", "abc def"},
      {"ΐ", "Ϊ́", "ΐ", "Ϊ́", "Ϊ́", "Ϊ́", "ΐ"}};
  for (const Case& row : cases) {
    EXPECT_EQ(mapped(to_upper, row.text), row.upper);
    EXPECT_EQ(mapped(to_lower, row.text), row.lower);
    EXPECT_EQ(mapped(to_title, row.text), row.title);
    EXPECT_EQ(mapped(capitalize, row.text), row.capital);
    EXPECT_EQ(mapped(swap_case, row.text), row.swapped);
    EXPECT_EQ(mapped(case_fold, row.text), row.folded);
  }
}

TEST_F(JinjaText, SearchesFromBothSides) {
  EXPECT_EQ(find_text(rt_, "abcabc", "bc", 0), 1u);
  EXPECT_EQ(find_text(rt_, "abcabc", "bc", 2), 4u);
  EXPECT_EQ(find_text(rt_, "abcabc", "x", 0), std::string_view::npos);
  EXPECT_EQ(find_text(rt_, "abc", "", 3), 3u);
  EXPECT_EQ(rfind_text(rt_, "abcabc", "bc", std::string_view::npos), 4u);
  EXPECT_EQ(rfind_text(rt_, "aaaa", "b", std::string_view::npos), std::string_view::npos);
}

TEST_F(JinjaText, LinesEndWherePythonEndsThem) {
  std::vector<std::string> lines, whole;
  const std::string_view all = "a\r\nb\vc\u2028d\n\ne";
  each_line(all, false,
            [&](std::size_t begin, std::size_t end) { lines.emplace_back(all.substr(begin, end - begin)); });
  each_line(all, true, [&](std::size_t begin, std::size_t end) { whole.emplace_back(all.substr(begin, end - begin)); });
  EXPECT_EQ(lines, (std::vector<std::string>{"a", "b", "c", "d", "", "e"}));
  EXPECT_EQ(whole, (std::vector<std::string>{"a\r\n", "b\v", "c\u2028", "d\n", "\n", "e"}));
}

TEST_F(JinjaText, StripsWhitespaceOrSetsOfCharacters) {
  const Str& padded = text(" \t\u00a0x y\u3000\n");
  const Span both = strip_bounds(rt_, padded, nullptr, true, true);
  EXPECT_EQ(padded.view().substr(both.begin, both.end - both.begin), "x y");
  const Str& dots = text("..é.a..");
  const Span left = strip_bounds(rt_, dots, &text(".é"), true, false);
  EXPECT_EQ(dots.view().substr(left.begin, left.end - left.begin), "a..");
}

TEST_F(JinjaText, CountsCodePoints) {
  const Str& mixed = text("aé世🎉");
  EXPECT_EQ(mixed.chars, 4u);
  EXPECT_EQ(count_chars("aé世🎉"), 4u);
  EXPECT_EQ(byte_offset(rt_, mixed, 3), 6u);
  EXPECT_EQ(char_at(mixed.view(), 6), U'🎉');
  EXPECT_EQ(char_value(rt_, mixed, 2).str->view(), "世");
}

TEST_F(JinjaText, BytesKeepTheirOrigin) {
  StrBuilder builder(rt_);
  builder.append("ab");
  builder.append("cd", true);
  builder.append("ef");
  const Str& all = *builder.finish().str;
  EXPECT_TRUE(any_content(all));
  EXPECT_FALSE(any_content(all, 0, 2));
  EXPECT_TRUE(any_content(all, 1, 3));
  EXPECT_FALSE(any_content(all, 4, 6));
  const Str& tail = *slice_bytes(rt_, all, 3, 6).str;
  EXPECT_EQ(tail.view(), "def");
  EXPECT_TRUE(any_content(tail, 0, 1));
  EXPECT_FALSE(any_content(tail, 1, 3));
  const Str& twice = *repeat(rt_, tail, 2).str;
  EXPECT_EQ(twice.view(), "defdef");
  EXPECT_TRUE(any_content(twice, 3, 4));
  EXPECT_FALSE(any_content(twice, 4, 6));
  const Str& joined = *concat(rt_, text("x"), all).str;
  EXPECT_EQ(joined.view(), "xabcdef");
  EXPECT_FALSE(any_content(joined, 0, 3));
  EXPECT_TRUE(any_content(joined, 3, 4));
}

}  // namespace
}  // namespace fathom::jinja
