#include "session/conversation.h"

#include <gtest/gtest.h>

namespace fathom {
namespace {

TEST(Conversation, KeepsTheSystemMessageOnly) {
  Conversation conversation("Be brief.");
  conversation.ask("a");
  conversation.answer("b");
  conversation.ask("c");
  conversation.withdraw();
  EXPECT_EQ(conversation.messages().size(), 3u);
  conversation.clear();
  ASSERT_EQ(conversation.messages().size(), 1u);
  EXPECT_EQ(conversation.messages()[0].role, "system");
  EXPECT_TRUE(Conversation("").messages().empty());
}

}  // namespace
}  // namespace fathom
