#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "support/fake_runner.h"

namespace fathom {
namespace {

constexpr TokenId kVocab = 50;

using Ids = std::vector<TokenId>;

struct Outcome {
  Ids tokens;
  FinishReason finish = FinishReason::none;
  std::string error;
  Usage usage;
};

SchedulerOptions options_of(i64 blocks, i64 block_size) {
  return {.limits = {.max_tokens = 8,
                     .max_sequences = 4,
                     .max_seq_len = 64,
                     .max_steps = 1,
                     .blocks = blocks,
                     .block_size = block_size},
          .vocab_size = kVocab};
}

void collect(const std::vector<Event>& events, std::map<i64, Outcome>& outcomes) {
  for (const Event& event : events) {
    Outcome& outcome = outcomes[event.request];
    ASSERT_EQ(outcome.finish, FinishReason::none) << "an event after the end";
    if (event.token >= 0) outcome.tokens.push_back(event.token);
    outcome.finish = event.finish;
    outcome.error = event.error;
    if (outcome.usage.completion_tokens > 0) {
      ASSERT_EQ(event.usage.cached_tokens, outcome.usage.cached_tokens);
    }
    outcome.usage = event.usage;
  }
}

std::map<i64, Outcome> run_all(Engine& engine) {
  std::map<i64, Outcome> outcomes;
  for (int step = 0; !engine.idle(); ++step) {
    EXPECT_LT(step, 100000) << "never ends";
    if (step >= 100000) break;
    collect(engine.step(), outcomes);
  }
  return outcomes;
}

Ids prompt_of(std::mt19937& random, std::size_t length, TokenId kinds = kVocab) {
  Ids ids(length);
  for (TokenId& id : ids) id = static_cast<TokenId>(random() % static_cast<unsigned>(kinds));
  return ids;
}

TEST(Engine, OneRequestGivesItsTokens) {
  for (const i64 max_steps : {1, 3, 8}) {
    FakeRunner runner(16, 4, kVocab);
    SchedulerOptions options = options_of(16, 4);
    options.limits.max_steps = max_steps;
    Engine engine(runner, options);
    EXPECT_TRUE(engine.idle());
    engine.submit({.id = 7, .prompt = {1, 2, 3}, .max_new_tokens = 5});
    const auto outcomes = run_all(engine);
    EXPECT_EQ(outcomes.at(7).tokens, runner.alone({1, 2, 3}, 5));
    EXPECT_EQ(outcomes.at(7).finish, FinishReason::length);
    EXPECT_EQ(outcomes.at(7).usage.prompt_tokens, 3);
    EXPECT_EQ(outcomes.at(7).usage.completion_tokens, 5);
    EXPECT_EQ(runner.passes, 5);
    EXPECT_EQ(runner.tokens, 3 + 4);  // the last token is never computed
  }
}

TEST(Engine, StopTokenEndsAndIsReported) {
  FakeRunner runner(16, 4, kVocab);
  const Ids expected = runner.alone({1, 2, 3}, 9);
  Engine engine(runner, options_of(16, 4));
  engine.submit({.id = 1, .prompt = {1, 2, 3}, .max_new_tokens = 9, .stop_ids = {expected[4]}});
  const auto outcomes = run_all(engine);
  EXPECT_EQ(outcomes.at(1).tokens, Ids(expected.begin(), std::find(expected.begin(), expected.end(), expected[4]) + 1));
  EXPECT_EQ(outcomes.at(1).finish, FinishReason::stop);
}

TEST(Engine, AnswerEndsAtTheLongestSequence) {
  for (const i64 max_steps : {1, 8}) {
    FakeRunner runner(32, 4, kVocab);
    SchedulerOptions options = options_of(32, 4);
    options.limits.max_steps = max_steps;
    Engine engine(runner, options);
    engine.submit({.id = 1, .prompt = Ids(60, 3), .max_new_tokens = 100});
    engine.submit({.id = 2, .prompt = Ids(64, 3), .max_new_tokens = 100});
    engine.submit({.id = 3, .prompt = {1}, .max_new_tokens = 0});
    const auto outcomes = run_all(engine);
    EXPECT_EQ(outcomes.at(1).tokens, runner.alone(Ids(60, 3), 4));
    EXPECT_EQ(outcomes.at(1).finish, FinishReason::length);
    for (const i64 id : {2, 3}) {
      EXPECT_TRUE(outcomes.at(id).tokens.empty());
      EXPECT_EQ(outcomes.at(id).finish, FinishReason::length);
    }
    EXPECT_EQ(runner.tokens, 60 + 3);
  }
}

TEST(Engine, RefusesWhatCanNeverBeServed) {
  FakeRunner runner(4, 4, kVocab);
  Engine engine(runner, options_of(4, 4));
  engine.submit({.id = 1, .prompt = Ids(65, 3)});
  engine.submit({.id = 2, .prompt = {}});
  engine.submit({.id = 3, .prompt = {kVocab}});
  engine.submit({.id = 4, .prompt = {-1}});
  engine.submit({.id = 5, .prompt = Ids(10, 3), .max_new_tokens = 7});
  engine.submit({.id = 6, .prompt = {1}, .sampling = {.top_p = 0}, .max_new_tokens = 2});
  engine.submit({.id = 7, .prompt = {1}, .sampling = {.temperature = NAN}, .max_new_tokens = 2});
  engine.submit({.id = 8, .prompt = {1}, .sampling = {.min_p = 2}, .max_new_tokens = 2});
  engine.submit({.id = 9, .prompt = {1}, .sampling = {.repetition_penalty = 0}, .max_new_tokens = 2});
  engine.submit({.id = 10, .prompt = {1}, .sampling = {.top_k = -1}, .max_new_tokens = 2});
  engine.submit({.id = 11, .prompt = {1}, .max_new_tokens = -1});
  engine.submit({.id = 12, .prompt = Ids(10, 3), .max_new_tokens = 6});
  engine.submit({.id = 13, .prompt = {1}, .stop_ids = Ids(257, 3)});
  for (const std::int32_t n : {-2, kVocab + 1})
    engine.submit({.id = 14 + (n > 0), .prompt = {1}, .max_new_tokens = 2, .n_logprobs = n});
  const auto outcomes = run_all(engine);
  for (i64 id = 13; id <= 15; ++id) EXPECT_EQ(outcomes.at(id).finish, FinishReason::error) << id;
  for (i64 id = 1; id <= 11; ++id) EXPECT_EQ(outcomes.at(id).finish, FinishReason::error) << id;
  EXPECT_EQ(outcomes.at(12).finish, FinishReason::length);
  EXPECT_EQ(outcomes.at(1).error,
            "Prompt length exceeds model maximum sequence length (max_seq_len=64): the prompt has 65 tokens; shorten "
            "it or raise max_seq_len");
  EXPECT_EQ(outcomes.at(3).error, "token id 50 is outside the vocabulary of 50");
  EXPECT_NE(outcomes.at(5).error.find("cache of 17 tokens"), std::string::npos) << outcomes.at(5).error;
}

TEST(Engine, IdsOfUnfinishedRequestsAreUnique) {
  FakeRunner runner(16, 4, kVocab);
  Engine engine(runner, options_of(16, 4));
  engine.submit({.id = 1, .prompt = {1}});
  EXPECT_THROW(engine.submit({.id = 1, .prompt = {2}}), Error);
}

TEST(Engine, SecondTurnComputesOnlyWhatIsNew) {
  FakeRunner runner(32, 4, kVocab);
  Engine engine(runner, options_of(32, 4));
  std::mt19937 random(1);
  Ids history = prompt_of(random, 21);
  engine.submit({.id = 1, .prompt = history, .max_new_tokens = 6});
  const Ids answer = run_all(engine).at(1).tokens;
  EXPECT_EQ(answer, runner.alone(history, 6));
  history.insert(history.end(), answer.begin(), answer.end());
  history.insert(history.end(), {4, 5});
  const i64 before = runner.tokens;
  engine.submit({.id = 2, .prompt = history, .max_new_tokens = 1});
  const Outcome second = run_all(engine).at(2);
  EXPECT_EQ(second.tokens, runner.alone(history, 1));
  EXPECT_EQ(second.usage.cached_tokens, 24);  // 26 of the first turn were computed, in blocks of 4
  EXPECT_EQ(runner.tokens - before, 29 - 24);
}

TEST(Engine, NotFiniteLogitsEndOneRequestOnly) {
  FakeRunner runner(32, 4, kVocab);
  runner.poison = 13;
  Engine engine(runner, options_of(32, 4));
  engine.submit({.id = 1, .prompt = {1, 13}, .max_new_tokens = 3});
  engine.submit({.id = 2, .prompt = {12, 1}, .max_new_tokens = 1});
  const auto outcomes = run_all(engine);
  EXPECT_EQ(outcomes.at(1).finish, FinishReason::error);
  EXPECT_NE(outcomes.at(1).error.find("not finite"), std::string::npos);
  EXPECT_EQ(outcomes.at(2).tokens, runner.alone({12, 1}, 1));
}

TEST(Engine, WhatANotFinitePassComputedIsNotFound) {
  FakeRunner runner(32, 4, kVocab);
  runner.poison = 13;
  Engine engine(runner, options_of(32, 4));
  engine.submit({.id = 1, .prompt = {1, 2, 3, 4, 5, 6, 7, 13}, .max_new_tokens = 3});
  EXPECT_EQ(run_all(engine).at(1).finish, FinishReason::error);
  engine.submit({.id = 2, .prompt = {1, 2, 3, 4, 5, 6, 7, 8}, .max_new_tokens = 3});
  EXPECT_EQ(run_all(engine).at(2).usage.cached_tokens, 0);
}

// A prompt in several passes, of which only the last has a row of logits: one bad pass does not poison a beginning.
TEST(Engine, ChunksAreFoundOnlyOnceTheyAreKnownToBeFinite) {
  FakeRunner runner(64, 4, kVocab);
  Engine engine(runner, options_of(64, 4));  // passes of 8 tokens
  Ids prompt(24, 5);
  prompt[3] = 13;
  runner.poison = 13;
  engine.submit({.id = 1, .prompt = prompt, .max_new_tokens = 3});
  engine.step();
  EXPECT_EQ(engine.scheduler().pool().cached(), 0);
  EXPECT_EQ(run_all(engine).at(1).finish, FinishReason::error);
  runner.poison = -1;  // the fault was that pass's
  engine.submit({.id = 2, .prompt = prompt, .max_new_tokens = 3});
  const Outcome second = run_all(engine).at(2);
  EXPECT_EQ(second.tokens, runner.alone(prompt, 3));
  EXPECT_EQ(second.usage.cached_tokens, 0);
  engine.submit({.id = 3, .prompt = prompt, .max_new_tokens = 3});
  EXPECT_EQ(run_all(engine).at(3).usage.cached_tokens, 20);
}

// Blocks that went wrong after they were found to be sound: the request that meets them ends, the next computes anew.
TEST(Engine, WhatProvedWrongIsFoundNoMore) {
  FakeRunner runner(64, 4, kVocab);
  Engine engine(runner, options_of(64, 4));
  const Ids prompt{1, 2, 3, 4, 5, 6, 7, 8, 9};
  engine.submit({.id = 1, .prompt = prompt, .max_new_tokens = 1});
  run_all(engine);
  runner.poison = 9;
  engine.submit({.id = 2, .prompt = prompt, .max_new_tokens = 1});
  const Outcome bad = run_all(engine).at(2);
  EXPECT_EQ(bad.usage.cached_tokens, 8);
  EXPECT_EQ(bad.finish, FinishReason::error);
  runner.poison = -1;
  engine.submit({.id = 3, .prompt = prompt, .max_new_tokens = 1});
  EXPECT_EQ(run_all(engine).at(3).usage.cached_tokens, 0);
  EXPECT_EQ(engine.scheduler().pool().available(), 64);
}

// Many sequences make a pass long, and others wait for the end of a plan.
TEST(Engine, ManySequencesGetFewerStepsTogether) {
  FakeRunner runner(64, 4, kVocab);
  SchedulerOptions options = options_of(64, 4);
  options.limits.max_sequences = options.limits.max_tokens = 16;
  options.limits.max_steps = 8;
  Engine engine(runner, options);
  for (i64 id = 0; id < 16; ++id) engine.submit({.id = id, .prompt = {3}, .max_new_tokens = 12});
  for (const auto& [id, outcome] : run_all(engine)) EXPECT_EQ(outcome.tokens, runner.alone({3}, 12)) << id;
  EXPECT_EQ(runner.most_steps, 4);
}

TEST(Engine, FailedPassEndsItsRequestsAndTheEngineGoesOn) {
  FakeRunner runner(32, 4, kVocab);
  Engine engine(runner, options_of(32, 4));
  runner.on_next = [] { fail("out of order"); };
  engine.submit({.id = 1, .prompt = {1, 2}, .max_new_tokens = 3});
  auto outcomes = run_all(engine);
  EXPECT_EQ(outcomes.at(1).error, "out of order");
  EXPECT_EQ(engine.scheduler().pool().available(), 32);
  engine.submit({.id = 1, .prompt = {1, 2}, .max_new_tokens = 3});
  EXPECT_EQ(run_all(engine).at(1).tokens, runner.alone({1, 2}, 3));
}

// Whatever a pass throws becomes error events of its requests; those collected before, and those that wait, stay.
TEST(Engine, AnythingThrownByAPassBecomesEvents) {
  const std::vector<std::pair<std::function<void()>, std::string>> kinds{
      {[] { throw std::bad_alloc(); }, "out of memory: a pass could not allocate"},
      {[] { throw std::runtime_error("a runtime error"); }, "a runtime error"},
      {[] { throw 7; }, "a pass failed for an unknown reason"}};
  for (const auto& [thrown, message] : kinds) {
    FakeRunner runner(32, 4, kVocab);
    SchedulerOptions options = options_of(32, 4);
    options.limits.max_sequences = 1;
    Engine engine(runner, options);
    engine.submit({.id = 1, .prompt = {}});
    engine.submit({.id = 2, .prompt = {1, 2}, .max_new_tokens = 3});
    engine.submit({.id = 3, .prompt = {3, 4}, .max_new_tokens = 3});
    runner.on_next = thrown;
    const auto outcomes = run_all(engine);
    EXPECT_EQ(outcomes.at(1).error, "the prompt has no tokens");
    EXPECT_EQ(outcomes.at(2).error, message);
    EXPECT_EQ(outcomes.at(3).tokens, runner.alone({3, 4}, 3));
    EXPECT_EQ(engine.scheduler().pool().available(), 32);
  }
}

TEST(Engine, NothingRunsOnALostDevice) {
  FakeRunner runner(32, 4, kVocab);
  SchedulerOptions options = options_of(32, 4);
  options.limits.max_sequences = 1;
  Engine engine(runner, options);
  for (i64 id = 1; id <= 3; ++id) engine.submit({.id = id, .prompt = {1, 2}, .max_new_tokens = 3});
  runner.on_next = [] { throw DeviceLost("CUDA could not download: an illegal memory access"); };
  auto outcomes = run_all(engine);
  engine.submit({.id = 4, .prompt = {1}, .max_new_tokens = 3});
  outcomes.merge(run_all(engine));
  for (i64 id = 1; id <= 4; ++id)
    EXPECT_EQ(outcomes.at(id).error,
              "CUDA could not download: an illegal memory access; nothing can run any more, start the program again");
  EXPECT_EQ(runner.passes, 1);
}

TEST(Engine, CancelBetweenPlanAndCommit) {
  for (const i64 max_steps : {1, 4}) {
    FakeRunner runner(32, 4, kVocab);
    SchedulerOptions options = options_of(32, 4);
    options.limits.max_steps = max_steps;
    Engine engine(runner, options);
    for (i64 id = 1; id <= 3; ++id)
      engine.submit({.id = id, .prompt = {1, static_cast<TokenId>(id)}, .max_new_tokens = 9});
    std::map<i64, Outcome> outcomes;
    collect(engine.step(), outcomes);
    runner.on_next = [&] { EXPECT_TRUE(engine.cancel(2)); };
    collect(engine.step(), outcomes);
    for (const auto& [id, outcome] : run_all(engine)) {
      Ids& tokens = outcomes[id].tokens;
      tokens.insert(tokens.end(), outcome.tokens.begin(), outcome.tokens.end());
    }
    for (const i64 id : {1, 3}) EXPECT_EQ(outcomes.at(id).tokens, runner.alone({1, static_cast<TokenId>(id)}, 9));
    EXPECT_EQ(outcomes.at(2).tokens.size(), 1u);
    EXPECT_EQ(engine.scheduler().pool().available(), 32);
  }
}

TEST(Engine, CancelFreesAtOnce) {
  FakeRunner runner(16, 4, kVocab);
  SchedulerOptions options = options_of(16, 4);
  options.limits.max_sequences = 1;
  Engine engine(runner, options);
  for (i64 id = 1; id <= 3; ++id) engine.submit({.id = id, .prompt = {1, 2, 3, 4, 5}, .max_new_tokens = 20});
  engine.step();
  EXPECT_TRUE(engine.cancel(1));  // running
  EXPECT_TRUE(engine.cancel(2));  // waiting
  EXPECT_FALSE(engine.cancel(1));
  EXPECT_FALSE(engine.cancel(9));
  EXPECT_EQ(engine.scheduler().pool().available(), 16);
  const auto outcomes = run_all(engine);
  EXPECT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes.at(3).tokens, runner.alone({1, 2, 3, 4, 5}, 20));
}

TEST(Engine, OldestMovesOnWhenBlocksRunOut) {
  FakeRunner runner(6, 4, kVocab);  // 24 tokens
  Engine engine(runner, options_of(6, 4));
  for (i64 id = 1; id <= 3; ++id)
    engine.submit({.id = id, .prompt = Ids(6, static_cast<TokenId>(id)), .max_new_tokens = 18});
  std::vector<i64> finished;
  std::map<i64, Outcome> outcomes;
  while (!engine.idle()) {
    const auto events = engine.step();
    collect(events, outcomes);
    for (const Event& event : events)
      if (event.finish != FinishReason::none) finished.push_back(event.request);
  }
  EXPECT_GT(engine.scheduler().preemptions(), 0);
  EXPECT_EQ(finished, (std::vector<i64>{1, 2, 3}));
  for (i64 id = 1; id <= 3; ++id) {
    EXPECT_EQ(outcomes.at(id).tokens, runner.alone(Ids(6, static_cast<TokenId>(id)), 18));
    EXPECT_EQ(outcomes.at(id).usage.cached_tokens, 0) << "what it computed itself before it had to stop";
  }
}

// Thousands of random arrivals, cancellations and sizes: every request gets what it gets alone, every block comes back,
// the limits hold, and each request ends within a bound.
TEST(Engine, RandomScripts) {
  i64 preemptions = 0, cached = 0, most_steps = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    const i64 block_size = 1 + static_cast<i64>(random() % 5), blocks = 2 + static_cast<i64>(random() % 20);
    SchedulerOptions options = options_of(blocks, block_size);
    Limits& limits = options.limits;
    limits.max_sequences = 1 + static_cast<i64>(random() % 5);
    options.chunk = 1 + static_cast<i64>(random() % 9);
    limits.max_tokens = std::max(options.chunk, limits.max_sequences);
    limits.max_seq_len = 1 + static_cast<i64>(random() % 40);
    options.prefix_reuse = random() % 4 != 0;
    limits.max_steps = seed % 3 == 0 ? 1 : 1 + static_cast<i64>(seed % 8);
    FakeRunner runner(blocks, block_size, kVocab);
    Engine engine(runner, options);
    std::map<i64, Request> requests;
    std::map<i64, Outcome> outcomes;
    std::set<i64> cancelled;
    const i64 count = 1 + static_cast<i64>(random() % 12);
    int steps = 0;
    while (static_cast<i64>(requests.size()) < count || !engine.idle()) {
      ASSERT_LT(++steps, 20000) << "seed " << seed;
      if (static_cast<i64>(requests.size()) < count && random() % 2 == 0) {
        const auto id = static_cast<i64>(requests.size());
        Request request{
            .id = id, .prompt = prompt_of(random, random() % 30, 2), .max_new_tokens = static_cast<i64>(random() % 24)};
        requests[id] = request;
        engine.submit(request);
      }
      if (seed % 2 == 0 && random() % 40 == 0 && !requests.empty()) {  // without them, nothing clears a stuck request
        const auto id = static_cast<i64>(random() % requests.size());
        if (engine.cancel(id)) cancelled.insert(id);
      }
      collect(engine.step(), outcomes);
    }
    ASSERT_EQ(engine.scheduler().pool().available(), blocks) << "seed " << seed;
    ASSERT_LE(runner.most_sequences, limits.max_sequences);
    ASSERT_LE(runner.most_tokens, limits.max_tokens);
    ASSERT_LE(runner.most_steps, limits.max_steps);
    most_steps = std::max(most_steps, runner.most_steps);
    preemptions += engine.scheduler().preemptions();
    for (const auto& [id, request] : requests) {
      if (cancelled.contains(id)) continue;
      const Outcome& outcome = outcomes[id];
      const auto length = static_cast<i64>(request.prompt.size());
      if (outcome.finish == FinishReason::error) {
        const i64 total = std::min(length + request.max_new_tokens, limits.max_seq_len);
        ASSERT_TRUE(length == 0 || length > limits.max_seq_len || total > blocks * block_size) << outcome.error;
        continue;
      }
      ASSERT_EQ(outcome.finish, FinishReason::length) << "seed " << seed << " request " << id;
      const i64 room = std::min(request.max_new_tokens, limits.max_seq_len - length);
      ASSERT_EQ(outcome.tokens, runner.alone(request.prompt, room)) << "seed " << seed << " request " << id;
      cached += outcome.usage.cached_tokens;
    }
  }
  EXPECT_GT(preemptions, 500);  // the scripts do reach the interesting cases
  EXPECT_GT(cached, 1000);
  EXPECT_EQ(most_steps, 8);
}

// Passes that are planned together draw what they draw one by one; what was drawn after an end is dropped.
TEST(Engine, StepsTogetherGiveTheSame) {
  const auto outcomes_with = [](i64 max_steps, FakeRunner& runner) {
    SchedulerOptions options = options_of(64, 4);
    options.limits.max_steps = max_steps;
    Engine engine(runner, options);
    const Ids expected = runner.alone({9, 8}, 30);
    engine.submit({.id = 1, .prompt = {1, 2, 3}, .max_new_tokens = 21});
    engine.submit({.id = 2, .prompt = {9, 8}, .max_new_tokens = 30, .stop_ids = {expected[6]}});
    engine.submit({.id = 3, .prompt = Ids(50, 5), .max_new_tokens = 40});
    auto outcomes = run_all(engine);
    EXPECT_EQ(engine.scheduler().pool().available(), 64);
    return outcomes;
  };
  FakeRunner one(64, 4, kVocab), many(64, 4, kVocab);
  const auto expected = outcomes_with(1, one), got = outcomes_with(8, many);
  EXPECT_EQ(one.most_steps, 1);
  EXPECT_EQ(many.most_steps, 8);
  for (const auto& [id, outcome] : expected) {
    EXPECT_EQ(got.at(id).tokens, outcome.tokens) << id;
    EXPECT_EQ(got.at(id).finish, outcome.finish) << id;
    EXPECT_EQ(got.at(id).usage.completion_tokens, outcome.usage.completion_tokens) << id;
  }
}

TEST(Engine, TokensThatMustBeSeenAreDrawnOneByOne) {
  for (const bool penalty : {true, false}) {
    FakeRunner runner(64, 4, kVocab);
    SchedulerOptions options = options_of(64, 4);
    options.limits.max_steps = 8;
    Engine engine(runner, options);
    Request request{.id = 1, .prompt = {1, 2, 3}, .max_new_tokens = 20};
    if (penalty)
      request.sampling.repetition_penalty = 1.5f;
    else
      request.n_logprobs = 0;
    engine.submit(request);
    EXPECT_EQ(run_all(engine).at(1).tokens, runner.alone({1, 2, 3}, 20));
    EXPECT_EQ(runner.most_steps, 1);
  }
}

}  // namespace
}  // namespace fathom
