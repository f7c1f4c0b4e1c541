#include "session/reply.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "text/tokenizer/byte_tokenizer.h"

namespace fathom {
namespace {

class ReplyTest : public testing::Test {
 protected:
  // What the reply shows of a drawn character.
  std::string take(Reply& reply, char character, FinishReason finish = FinishReason::none) const {
    const TokenId token = tokenizer.token_id(std::string(1, character)).value();
    return reply.take({.token = token, .finish = finish, .usage = {.prompt_tokens = 3, .completion_tokens = 1}});
  }

  Tokenizer tokenizer = Tokenizer::parse(byte_tokenizer_json({.bos = 0, .eos = 1}), byte_tokenizer_config_json(100));
};

TEST_F(ReplyTest, TextComesAsItIsDrawn) {
  Reply reply(tokenizer, {});
  EXPECT_EQ(take(reply, 'a'), "a");
  EXPECT_EQ(take(reply, 'b'), "b");
  EXPECT_FALSE(reply.done());
  EXPECT_EQ(take(reply, 'c', FinishReason::length), "c");
  EXPECT_EQ(reply.text(), "abc");
  EXPECT_EQ(reply.finish(), "length");
}

// A generation configuration may name any token as an end, one with a text that decoding keeps too.
TEST_F(ReplyTest, EndTokenIsNotShownAlthoughItHasText) {
  Reply reply(tokenizer, {});
  take(reply, 'a');
  EXPECT_EQ(take(reply, 'x', FinishReason::stop), "");
  EXPECT_EQ(reply.text(), "a");
  EXPECT_EQ(reply.finish(), "stop");
  EXPECT_EQ(reply.to_json()["ids"].size(), 2u);  // it was drawn all the same
}

TEST_F(ReplyTest, StopTextIsHeldBackAndEndsTheAnswer) {
  Reply reply(tokenizer, {"\nQ"});
  EXPECT_EQ(take(reply, 'a'), "a");
  EXPECT_EQ(reply.take({.token = tokenizer.encode("\n").front()}), "");
  EXPECT_EQ(take(reply, 'b'), "\nb");
  EXPECT_EQ(reply.take({.token = tokenizer.encode("\n").front()}), "");
  EXPECT_EQ(take(reply, 'Q'), "");
  EXPECT_TRUE(reply.done());
  EXPECT_EQ(reply.text(), "a\nb");
  EXPECT_EQ(reply.finish(), "stop");
}

TEST_F(ReplyTest, BreakingOffGivesWhatWasHeldBack) {
  Reply reply(tokenizer, {"ab"});
  EXPECT_EQ(take(reply, 'a'), "");
  EXPECT_EQ(reply.break_off(), "a");
  EXPECT_EQ(reply.finish(), "interrupted");
  EXPECT_EQ(reply.break_off(), "");
}

TEST_F(ReplyTest, ErrorsKeepTheirReason) {
  Reply reply(tokenizer, {});
  EXPECT_EQ(reply.take({.finish = FinishReason::error, .error = "no room"}), "");
  EXPECT_EQ(reply.finish(), "error");
  EXPECT_EQ(reply.error(), "no room");
}

}  // namespace
}  // namespace fathom
