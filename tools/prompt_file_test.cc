#include "tools/prompt_file.h"

#include <gtest/gtest.h>

#include "base/file.h"

namespace fathom {
namespace {

using Lines = std::vector<std::string>;

Lines read(const std::string& text) {
  const auto path = std::filesystem::path(testing::TempDir()) / "prompts.txt";
  write_file(path, text);
  return read_prompt_file(path);
}

// Expected values: Python's [line.strip() for line in open(path).readlines()].
TEST(PromptFile, LinesAsPythonReadsThem) {
  EXPECT_EQ(read("a\nb\n"), (Lines{"a", "b"}));
  EXPECT_EQ(read("a\nb"), (Lines{"a", "b"}));
  EXPECT_EQ(read("a\r\nb\rc\n"), (Lines{"a", "b", "c"}));
  EXPECT_EQ(read("\n\n"), (Lines{"", ""}));
  EXPECT_EQ(read(" \t a b \v\f\x1c\x1f\n"), (Lines{"a b"}));
  EXPECT_EQ(read("\u3000\u00a0x\u2028y\u2029\n"), (Lines{"x\u2028y"}));
  EXPECT_EQ(read("   \n \u00a0"), (Lines{"", ""}));
  EXPECT_EQ(read("十 二\n"), (Lines{"十 二"}));
}

TEST(PromptFile, ByteOrderMarkIsNoPartOfThePrompt) {
  EXPECT_EQ(read("\xEF\xBB\xBF"
                 "a\n\xEF\xBB\xBF"
                 "b\n"),
            (Lines{"a",
                   "\uFEFF"
                   "b"}));
}

TEST(PromptFile, RefusesWhatIsNoText) {
  EXPECT_THROW(read(""), Error);
  EXPECT_THROW(read_prompt_file("/no/such/file"), Error);
  try {
    read("fine\n\xff\n");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("line 2 of "), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace fathom
