// The embedded model against the values of its training code: likelihoods, logits, predictions, greedy answers.
#include <gtest/gtest.h>

#include <fstream>

#include "engine/engine.h"
#include "engine/runner.h"
#include "model/mtp.h"
#include "support/golden.h"
#include "support/model_session.h"

namespace fathom::test {
namespace {

std::filesystem::path model_folder() { return source_folder() / "models/tiny"; }

struct Tiny {
  ModelArgs args = load_model_args_of(model_folder());
  std::unique_ptr<Checkpoint> weights = open_checkpoint(model_folder());

  std::unique_ptr<ModelSession> session(DType compute, GemmMode gemm = GemmMode::bf16,
                                        AttnImpl attn = AttnImpl::absorb) const {
    ModelSession::Settings settings;
    settings.options = {compute, gemm, attn, false};
    if (const char* device = std::getenv("FATHOM_TEST_DEVICE")) settings.device = device;
    return std::make_unique<ModelSession>(args, *weights, settings);
  }
};

// Summed negative log-likelihood of ids[1..] given the logits at each position before.
double negative_log_likelihood(const ModelSession::Rows& logits, const std::vector<int>& ids) {
  double sum = 0;
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    const auto& row = logits[i];
    const double largest = *std::max_element(row.begin(), row.end());
    double total = 0;
    for (const float logit : row) total += std::exp(static_cast<double>(logit) - largest);
    sum += largest + std::log(total) - static_cast<double>(row[static_cast<std::size_t>(ids[i + 1])]);
  }
  return sum;
}

struct Evaluation {
  nlohmann::json json = nlohmann::json::parse(read_file(data_folder() / "tiny/eval.json"));
  std::vector<std::vector<int>> sequences = json["sequences"].get<std::vector<std::vector<int>>>();

  // Per sequence.
  std::vector<double> run(ModelSession& session) const {
    std::vector<double> all;
    for (const auto& ids : sequences) {
      all.push_back(negative_log_likelihood(session.step({{0, ids, true}}), ids));
      session.forget(0);
    }
    return all;
  }

  double perplexity(const std::vector<double>& nll) const {
    double sum = 0, tokens = 0;
    for (std::size_t i = 0; i < nll.size(); ++i) sum += nll[i], tokens += static_cast<double>(sequences[i].size() - 1);
    return std::exp(sum / tokens);
  }
};

TEST(TinyModel, LogLikelihoodsInFloat32) {
  const Tiny tiny;
  const Evaluation evaluation;
  for (const AttnImpl attn : {AttnImpl::absorb, AttnImpl::naive}) {
    const auto nll = evaluation.run(*tiny.session(DType::f32, GemmMode::bf16, attn));
    const auto expected = evaluation.json["nll_fp32"].get<std::vector<double>>();
    for (std::size_t i = 0; i < nll.size(); ++i)
      EXPECT_NEAR(nll[i], expected[i], 1e-4 * expected[i]) << "sequence " << i;
  }
}

TEST(TinyModel, PerplexityInBf16) {
  const Tiny tiny;
  const Evaluation evaluation;
  const double expected = evaluation.json["perplexity_fp32"].get<double>();
  for (const GemmMode gemm : {GemmMode::bf16, GemmMode::fp8}) {
    const double ours = evaluation.perplexity(evaluation.run(*tiny.session(DType::bf16, gemm)));
    std::printf("perplexity in bf16, gemm %s: %.5f, float32 %.5f\n", gemm == GemmMode::fp8 ? "fp8" : "bf16", ours,
                expected);
    EXPECT_NEAR(ours, expected, 0.003 * expected);
  }
}

TEST(TinyModel, LogitsInFloat32) {
  const Tiny tiny;
  const Evaluation evaluation;
  const SafetensorsFile golden(data_folder() / "tiny/golden.safetensors");
  const auto session = tiny.session(DType::f32);
  for (std::size_t n = 0; n < 3; ++n) {
    const auto rows = session->step({{0, evaluation.sequences[n], true}});
    session->forget(0);
    const auto expected = rows_of(golden, fmt::format("main.{}", n));
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_LT(relative_error(rows[i], expected[i]), 2e-5) << n << " " << i;
  }
}

// The MTP module: logits for token i + 2 from the state at i and the embedding of token i + 1.
TEST(TinyModel, MultiTokenPrediction) {
  const Tiny tiny;
  const Evaluation evaluation;
  const SafetensorsFile golden(data_folder() / "tiny/golden.safetensors");
  const auto session = tiny.session(DType::f32);
  for (std::size_t n = 0; n < 3; ++n) {
    const std::vector<int>& ids = evaluation.sequences[n];
    const auto rows = session->predict_next(ids);
    const auto expected = rows_of(golden, fmt::format("mtp.{}", n));
    for (std::size_t i = 0; i < std::min(expected.size(), rows.size()); ++i)
      EXPECT_LT(relative_error(rows[i], expected[i]), 2e-5) << n << " " << i;
    const auto argmax = evaluation.json["mtp_argmax_fp32"][n].get<std::vector<int>>();
    ASSERT_EQ(argmax.size(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto best = std::max_element(rows[i].begin(), rows[i].end()) - rows[i].begin();
      // A tie to float32 rounding may fall either way.
      EXPECT_NEAR(rows[i][static_cast<std::size_t>(argmax[i])], rows[i][static_cast<std::size_t>(best)], 1e-4);
    }
  }
}

struct Answer {
  std::vector<int> ids, greedy;
  double min_margin;
  std::string kind;
};

std::vector<Answer> answers() {
  std::ifstream in(data_folder() / "tiny/expected.jsonl");
  std::vector<Answer> all;
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line);
    all.push_back({json["prompt_ids"].get<std::vector<int>>(), json["greedy_ids"].get<std::vector<int>>(),
                   json["min_margin"].get<double>(), json["kind"].get<std::string>()});
  }
  CHECK(all.size() > 90, "{} expected answers", all.size());
  return all;
}

// The device and the model behind an engine that takes prompts of any length the model allows.
std::vector<std::vector<int>> greedy(DType compute, const std::vector<Answer>& all) {
  const Tiny tiny;
  const char* device = std::getenv("FATHOM_TEST_DEVICE");
  const auto backend = create_backend(device != nullptr ? device : "cpu", 0);
  SingleCommunicator comm;
  Runner runner(*backend, comm, *tiny.weights, tiny.args,
                {.limits = {.max_sequences = 4, .max_seq_len = 12000}, .compute = {.compute = compute}});
  Engine engine(runner, {.limits = runner.limits(), .vocab_size = tiny.args.vocab_size});
  for (std::size_t i = 0; i < all.size(); ++i)
    engine.submit({.id = static_cast<i64>(i),
                   .prompt = all[i].ids,
                   .sampling = {.temperature = 0},
                   .max_new_tokens = static_cast<i64>(all[i].greedy.size()),
                   .stop_ids = {1}});
  std::vector<std::vector<int>> tokens(all.size());
  while (!engine.idle())
    for (const Event& event : engine.step()) {
      EXPECT_NE(event.finish, FinishReason::error) << event.error;
      if (event.token >= 0) tokens[static_cast<std::size_t>(event.request)].push_back(event.token);
    }
  return tokens;
}

void check_greedy(DType compute, double margin, bool long_prompts) {
  std::vector<Answer> all = answers();
  const bool sanitized = std::getenv("FATHOM_TEST_SANITIZED") != nullptr;
  std::erase_if(all, [&](const Answer& a) { return (sanitized || !long_prompts) && a.ids.size() > 1000; });
  const auto tokens = greedy(compute, all);
  std::size_t equal = 0, judged = 0, keys = 0, keys_equal = 0, longest = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<int> ours = tokens[i];
    if (!ours.empty() && ours.back() == 1 && all[i].greedy.back() != 1) ours.pop_back();
    const bool same = ours == all[i].greedy, key = all[i].kind.starts_with("passkey");
    equal += same, keys += key, keys_equal += key && same, longest = std::max(longest, all[i].ids.size());
    if (all[i].min_margin <= margin) continue;
    ++judged;
    EXPECT_TRUE(same) << all[i].kind << ", prompt " << i << " of " << all[i].ids.size() << " tokens";
  }
  std::printf("greedy ids in %s: %zu of %zu equal, %zu judged, pass keys %zu of %zu, longest prompt %zu tokens\n",
              std::string(name_of(compute)).c_str(), equal, all.size(), judged, keys_equal, keys, longest);
  EXPECT_GT(judged, 60u);
}

TEST(TinyModel, GreedyAnswersInFloat32) { check_greedy(DType::f32, 1e-3, true); }
TEST(TinyModel, GreedyAnswersInBf16) { check_greedy(DType::bf16, 0.1, true); }

}  // namespace
}  // namespace fathom::test
