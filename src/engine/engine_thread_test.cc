#include "engine/engine_thread.h"

#include <gtest/gtest.h>

#include <atomic>

#include "support/fake_runner.h"

namespace fathom {
namespace {

constexpr TokenId kVocabulary = 1000;

SchedulerOptions options() {
  return {
      .limits =
          {.max_tokens = 64, .max_sequences = 4, .max_seq_len = 256, .max_steps = 4, .blocks = 64, .block_size = 16},
      .vocab_size = kVocabulary};
}

// Collects what a request hears.
struct Heard {
  std::mutex mutex;
  std::condition_variable wake;
  std::map<i64, std::vector<TokenId>> tokens;
  i64 finished = 0;

  EngineThread::Listener listener() {
    return [this](const std::vector<Event>& events) {
      const std::unique_lock lock(mutex);
      for (const Event& event : events) {
        if (event.token >= 0) tokens[event.request].push_back(event.token);
        if (event.finish != FinishReason::none) ++finished;
      }
      wake.notify_all();
    };
  }
  template <typename Condition>
  bool wait(Condition condition) {
    std::unique_lock lock(mutex);
    return wake.wait_for(lock, std::chrono::seconds(30), condition);
  }
};

TEST(EngineThread, RequestsOfManyThreadsAreAnsweredAsAlone) {
  FakeRunner runner(64, 16, kVocabulary);
  Engine engine(runner, options());
  EngineThread thread(engine, 1000);
  Heard heard;
  std::atomic<i64> submitted = 0;
  std::map<i64, std::vector<TokenId>> prompts;
  std::mutex mutex;
  std::vector<std::thread> clients;
  clients.reserve(4);
  for (int c = 0; c < 4; ++c)
    clients.emplace_back([&, c] {
      for (int n = 0; n < 25; ++n) {
        const i64 id = thread.take_ids(1);
        const std::vector<TokenId> prompt{c + 1, n + 1, 7};
        {
          const std::unique_lock lock(mutex);
          prompts[id] = prompt;
        }
        submitted += thread.submit({{.id = id, .prompt = prompt, .max_new_tokens = 20}}, heard.listener()) ? 1 : 0;
      }
    });
  for (std::thread& client : clients) client.join();
  ASSERT_TRUE(heard.wait([&] { return heard.finished == submitted; }));
  EXPECT_EQ(submitted, 100);
  for (const auto& [id, prompt] : prompts) EXPECT_EQ(heard.tokens[id], runner.alone(prompt, 20)) << id;
  EXPECT_EQ(thread.stats().finished, 100);
  EXPECT_EQ(thread.stats().generated_tokens, 2000);
}

TEST(EngineThread, CancelledRequestsGiveTheirBlocksBack) {
  FakeRunner runner(64, 16, kVocabulary);
  Engine engine(runner, options());
  EngineThread thread(engine, 1000);
  Heard heard;
  const i64 id = thread.take_ids(2);
  ASSERT_TRUE(thread.submit(
      {{.id = id, .prompt = {1}, .max_new_tokens = 200}, {.id = id + 1, .prompt = {2}, .max_new_tokens = 3}},
      heard.listener()));
  thread.cancel(id);
  thread.cancel(id);
  thread.cancel(99999);
  ASSERT_TRUE(heard.wait([&] { return heard.tokens[id + 1].size() == 3; }));
  const i64 last = thread.take_ids(1);
  ASSERT_TRUE(thread.submit({{.id = last, .prompt = {3}, .max_new_tokens = 1}}, heard.listener()));
  ASSERT_TRUE(heard.wait([&] { return heard.tokens[last].size() == 1; }));
  const EngineStats stats = thread.stats();
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.free_blocks, stats.blocks);
  EXPECT_LE(stats.cancelled, 1);  // 0 when it was done before
}

TEST(EngineThread, NoMoreThanFitWait) {
  FakeRunner runner(64, 16, kVocabulary);
  Engine engine(runner, options());
  EngineThread thread(engine, 2);
  const i64 id = thread.take_ids(3);
  std::vector<Request> three;
  for (i64 n = 0; n < 3; ++n) three.push_back({.id = id + n, .prompt = {1}, .max_new_tokens = 1});
  EXPECT_FALSE(thread.submit(three, [](const std::vector<Event>&) { FAIL(); }));
  three.pop_back();
  Heard heard;
  EXPECT_TRUE(thread.submit(three, heard.listener()));
  EXPECT_TRUE(heard.wait([&] { return heard.finished == 2; }));
}

TEST(EngineThread, EndsInTheMiddle) {
  FakeRunner runner(64, 16, kVocabulary);
  Engine engine(runner, options());
  Heard heard;
  {
    EngineThread thread(engine, 10);
    thread.submit({{.id = thread.take_ids(1), .prompt = {1}, .max_new_tokens = 200}}, heard.listener());
  }
  EXPECT_LE(heard.finished, 1);
}

}  // namespace
}  // namespace fathom
