#include "text/tokenizer/decoder.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "text/unicode/utf8.h"

namespace fathom {
namespace {

using nlohmann::json;

// Expected values are those of the Rust library (Python package tokenizers 0.23.3).
struct Case {
  const char* description;
  std::vector<std::string> tokens;
  const char* expected;
};

TEST(Decoder, EqualsTheRustLibraryAndEmitsWholeCharacters) {
  const Case cases[] = {
      // clang-format off
      {R"(null)", {"a", "b", "c"}, "a b c"},
      {R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true})", {"Hello", "Ġwor", "ld"}, "Hello world"},
      {R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true})", {"ä\302\270", "Ń", "x"}, "中x"},
      {R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true})", {"ä\302\270", "x", "Ń"}, "\357\277\275x\357\277\275"},
      {R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true})", {"ä", "<\357\275\234x\357\275\234>"}, "\357\277\275<\357\275\234x\357\275\234>"},
      {R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true})", {"ð", "Ł", "ĺ"}, "\357\277\275"},
      {R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true})", {"a b", "Ġ"}, "a b "},
      {R"({"type":"ByteFallback"})", {"a", "<0xE4>", "<0xB8>", "<0xAD>", "b"}, "a中b"},
      {R"({"type":"ByteFallback"})", {"<0xE4>", "<0xB8>", "c"}, "\357\277\275\357\277\275c"},
      {R"({"type":"ByteFallback"})", {"<0x61>", "<0xff>"}, "\357\277\275\357\277\275"},
      {R"({"type":"ByteFallback"})", {"<0x6>", "<0x6g>"}, "<0x6><0x6g>"},
      {R"({"type":"Fuse"})", {"a", "b"}, "ab"},
      {R"({"type":"Replace","pattern":{"String":"▁"},"content":" "})", {"▁a▁", "▁b"}, " a  b"},
      {R"({"type":"Replace","pattern":{"Regex":"[ab]+"},"content":"-"})", {"xaby", "b"}, "x-y-"},
      {R"({"type":"Strip","content":" ","start":1,"stop":0})", {"  a", " b ", "c"}, " ab c"},
      {R"({"type":"Strip","content":"x","start":0,"stop":2})", {"xaxxx", "bx", "cyy"}, "xaxbcyy"},
      {R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true})", {"▁Hey▁x", "▁friend"}, "Heyx friend"},
      {R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true})", {"Hey", "▁"}, "Hey "},
      {R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"never","split":true})", {"▁Hey", "▁friend"}, " Hey friend"},
      {R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})", {"▁Hello", "▁", "▁<0xE4>", "<0xE4>", "<0xB8>", "<0xAD>", "▁x"}, "Hello  <0xE4>中 x"},
      {R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})", {"▁▁a"}, " a"},
      {R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})", {"<0xE4>", "<0xB8>"}, "\357\277\275\357\277\275"},
      {R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Replace","pattern":{"String":"aab"},"content":"-"},{"type":"Strip","content":"x","start":2,"stop":2}]})", {"x", "xx", "aa", "a", "ab", "b", "x", "x", "x"}, "xaa-bx"},
      {R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Replace","pattern":{"String":"aab"},"content":"-"},{"type":"Strip","content":"x","start":2,"stop":2}]})", {"aa", "b"}, "-"},
      {R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Replace","pattern":{"String":"aab"},"content":"-"},{"type":"Strip","content":"x","start":2,"stop":2}]})", {"a", "aac", "x"}, "aaac"},
      {R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Replace","pattern":{"Regex":"a+"},"content":"-"}]})", {"xa", "ay"}, "x-y"},
      {R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"ByteFallback"}]})", {"<0x", "61>"}, "a"},
      {R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"ByteFallback"}]})", {"<0x61>", "b"}, "<0x61>b"},
      // clang-format on
  };
  for (const Case& c : cases) {
    const Decoder decoder(json::parse(c.description));
    DecoderStream stream = decoder.stream();
    std::string all;
    for (const std::string& token : c.tokens) {
      std::string part;
      stream.push(token, part);
      EXPECT_TRUE(is_valid_utf8(part)) << c.description;
      all += part;
    }
    stream.finish(all);
    EXPECT_EQ(all, c.expected) << c.description;
  }
}

std::vector<std::string> parts_of(const char* description, const std::vector<std::string>& tokens) {
  const Decoder decoder(json::parse(description));
  DecoderStream stream = decoder.stream();
  std::vector<std::string> parts;
  for (const std::string& token : tokens) stream.push(token, parts.emplace_back());
  stream.finish(parts.emplace_back());
  return parts;
}

TEST(Decoder, BytesWaitOnlyWhileTheyCanBecomeACharacter) {
  constexpr const char* kByteLevel = R"({"type":"ByteLevel"})";
  // E4 B8 AD in three tokens; E4 alone, mended by nothing once a letter follows; F0 9F alone at the end.
  using Parts = std::vector<std::string>;
  EXPECT_EQ(parts_of(kByteLevel, {"ä", "¸", "Ń"}), (Parts{"", "", "中", ""}));
  EXPECT_EQ(parts_of(kByteLevel, {"ä", "x"}), (Parts{"", "\uFFFDx", ""}));
  EXPECT_EQ(parts_of(kByteLevel, {"a", "ðŁ"}), (Parts{"a", "", "\uFFFD"}));
  EXPECT_EQ(parts_of(kByteLevel, {"¸", "ÿ"}), (Parts{"\uFFFD", "\uFFFD", ""}));
}

TEST(Decoder, FallbackBytesWaitForTheEndOfTheirRun) {
  const auto parts = parts_of(R"({"type":"ByteFallback"})", {"<0xC3>", "<0xA9>", "x", "<0xC3>", "x"});
  EXPECT_EQ(parts, (std::vector<std::string>{"", "", "éx", "", "\uFFFDx", ""}));
}

TEST(Decoder, BytesOfSingleTokens) {
  const Decoder bytes(json::parse(R"({"type":"ByteLevel"})"));
  EXPECT_EQ(bytes.token_bytes("Ġä"), " \xE4");
  EXPECT_EQ(bytes.token_bytes("<｜x｜>"), "<｜x｜>");
  const Decoder llama(
      json::parse(R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},)"
                  R"({"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})"));
  EXPECT_EQ(llama.token_bytes("▁Hello"), " Hello");
  EXPECT_EQ(llama.token_bytes("<0xE4>"), "\xE4");
}

TEST(Decoder, BadDescriptionsAreErrors) {
  for (const char* bad : {"1", "{}", R"({"type":"CTC"})", R"({"type":"Strip","content":"xy","start":0,"stop":0})",
                          R"({"type":"Strip","content":"x","start":-1,"stop":0})",
                          R"({"type":"Sequence","decoders":[null]})", R"({"type":"Replace","content":""})"})
    EXPECT_THROW(Decoder(json::parse(bad)), Error) << bad;
}

}  // namespace
}  // namespace fathom
