#include "session/session.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "backends/cpu/cpu_backend.h"
#include "session/prompt.h"
#include "session/text_of_model.h"

namespace fathom {
namespace {

std::string tiny() { return std::string(std::getenv("FATHOM_SOURCE_DIR")) + "/models/tiny"; }

class SessionTest : public testing::Test {
 protected:
  struct Answer {
    std::map<i64, Reply> replies;
    std::string shown;
    i64 passes = 0;
    const Reply& reply() const { return replies.at(7); }
  };

  // The answer of the embedded model to a question; broken off before pass number `passes`.
  Answer ask(const std::vector<std::string>& stop, i64 passes = 1000) {
    Answer answer;
    answer.replies.try_emplace(7, session.tokenizer(), stop);
    session.engine().submit(session.request(7, prompts.build({{"user", "What is 3 plus 2?"}}), options));
    session.run(
        answer.replies, [&](i64, const std::string& text) { answer.shown += text; },
        [&] { return answer.passes++ == passes; });
    return answer;
  }

  ModelSource source = open_model(tiny());
  Session session{source, std::make_unique<CpuBackend>(2), {.compute = {.compute = DType::f32}, .max_batch_size = 2}};
  PromptBuilder prompts{session.tokenizer(), load_chat_template(source, {}), false};
  AnswerOptions options{.sampling = {.temperature = 0}};
};

TEST_F(SessionTest, AnswersWhatTheOriginalProgramsAnswer) {
  const Answer answer = ask({});
  EXPECT_EQ(answer.reply().text(), "3 + 2 = 5.");
  EXPECT_EQ(answer.shown, answer.reply().text());
  EXPECT_EQ(answer.reply().finish(), "stop");
}

// The request ends with the stop text: no pass is spent on tokens that no one sees.
TEST_F(SessionTest, StopTextCancelsTheRequest) {
  const i64 whole = ask({}).passes;
  const Answer answer = ask({"2 ="});
  EXPECT_EQ(answer.reply().text(), "3 + ");
  EXPECT_EQ(answer.reply().finish(), "stop");
  EXPECT_EQ(answer.passes, answer.reply().usage().completion_tokens);
  EXPECT_LT(answer.passes, whole);
  EXPECT_TRUE(session.engine().idle());
}

TEST_F(SessionTest, InterruptionEndsAllRequests) {
  const Answer answer = ask({}, 3);
  EXPECT_EQ(answer.reply().finish(), "interrupted");
  EXPECT_EQ(answer.reply().usage().completion_tokens, 3);
  EXPECT_TRUE(session.engine().idle());
  EXPECT_EQ(ask({}).reply().text(), "3 + 2 = 5.");  // and the session goes on
}

TEST_F(SessionTest, OptionsOverrideTheConfiguration) {
  EXPECT_EQ(session.args().max_batch_size, 2);
  EXPECT_EQ(session.max_seq_len(), source.args.max_seq_len);
  i64 read = 0, all = 0;
  const Session small(source, std::make_unique<CpuBackend>(2), {.max_seq_len = 64}, [&](i64 done, i64 total) {
    read = done;
    all = total;
  });
  EXPECT_EQ(small.max_seq_len(), 64);
  EXPECT_GT(read, 0);
  EXPECT_LE(read, all);
}

TEST_F(SessionTest, RequestsOfARunDrawTheirOwnTokens) {
  options.sampling.seed = 40;
  EXPECT_EQ(session.request(1, {1, 2}, options, 2).sampling.seed, 42);
  ModelArgs args = source.args;
  const TokenId eos = session.tokenizer().eos_id().value();
  args.eos_token_ids = {eos + 1, eos, eos + 1};
  EXPECT_EQ(stop_ids(args, session.tokenizer()), (std::vector<TokenId>{eos, eos + 1}));
}

}  // namespace
}  // namespace fathom
