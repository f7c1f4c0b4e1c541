#include "text/tokenizer/byte_tokenizer.h"

#include <gtest/gtest.h>

#include "text/tokenizer/tokenizer.h"

namespace fathom {
namespace {

TEST(ByteTokenizer, OneTokenAByte) {
  const Tokenizer tokenizer = Tokenizer::parse(byte_tokenizer_json({}), byte_tokenizer_config_json(10));
  const std::string text = "a\n é中\x7f";
  const auto ids = tokenizer.encode(text);
  EXPECT_EQ(ids.size(), text.size());
  EXPECT_EQ(ids[0], 'a' + 2);  // behind BOS and EOS
  EXPECT_EQ(tokenizer.decode(ids), text);
  EXPECT_EQ(tokenizer.vocab_size(), byte_tokenizer_size());
  EXPECT_EQ(tokenizer.encode("<｜User｜>").size(), 1u);
}

TEST(ByteTokenizer, HasTheModelsIds) {
  struct Case {
    ByteTokenizerIds stated;
    TokenId bos, eos;
  };
  for (const Case& one :
       {Case{{}, 0, 1}, Case{{.bos = 5, .eos = 9}, 5, 9}, Case{{.eos = 0}, 1, 0}, Case{{.bos = 3, .eos = 3}, 0, 3}}) {
    const Tokenizer tokenizer = Tokenizer::parse(byte_tokenizer_json(one.stated), byte_tokenizer_config_json(10));
    EXPECT_EQ(tokenizer.bos_id(), one.bos);
    EXPECT_EQ(tokenizer.eos_id(), one.eos);
    EXPECT_EQ(tokenizer.encode_with_bos("x").front(), one.bos);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode("all 0123 bytes")), "all 0123 bytes");
  }
}

}  // namespace
}  // namespace fathom
