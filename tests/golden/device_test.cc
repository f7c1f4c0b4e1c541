// A device against the CPU, on whole models: FATHOM_TEST_DEVICE names the device; without it everything is skipped.
#include <gtest/gtest.h>

#include <cstdlib>

#include "support/golden.h"
#include "support/model_session.h"

namespace fathom::test {
namespace {

class DeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("FATHOM_TEST_DEVICE") == nullptr) GTEST_SKIP() << "FATHOM_TEST_DEVICE is not set";
  }
};

ModelSession::Rows rows_of(const Golden& golden, const std::string& device, const ComputeOptions& options) {
  ModelSession::Settings settings;
  settings.options = options;
  settings.device = device;
  ModelSession session(golden.args, *golden.weights, settings);
  ModelSession::Rows rows;
  for (const char* prompt : {"p1", "p17", "p300"}) {
    for (auto& row : session.run(0, golden.ids(prompt), golden.forced(prompt))) rows.push_back(std::move(row));
    session.forget(0);
  }
  return rows;
}

// Row errors, smallest first.
std::vector<double> errors_of(const ModelSession::Rows& x, const ModelSession::Rows& y) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < y.size(); ++i) errors.push_back(relative_error(x[i], y[i]));
  std::sort(errors.begin(), errors.end());
  return errors;
}

// The distance of two roundings of one computation, and the error of one of them, which it is measured by. Routing is
// discrete: where two experts are nearly level a rounding changes the choice, and the row and those after it are other
// sums by an order of magnitude. Either of the two may have such rows; a quarter of all rows is free of them in both.
struct Distance {
  double quarter, median, own;  // own: the median error of the second against the exact values
};

Distance distance_of(const ModelSession::Rows& ours, const ModelSession::Rows& theirs,
                     const ModelSession::Rows& exact) {
  const auto apart = errors_of(ours, theirs);
  return {apart[apart.size() / 4], median(apart), median(errors_of(theirs, exact))};
}

void expect_near(const std::string& what, const Distance& distance) {
  std::printf("%s: rows are %.2e apart (median %.2e), one's own error is %.2e\n", what.c_str(), distance.quarter,
              distance.median, distance.own);
  EXPECT_LT(distance.quarter, 2 * distance.own) << what;
}

struct Mode {
  const char* name;
  ComputeOptions options;
};

constexpr Mode kModes[] = {
    {"f32 absorb", {.compute = DType::f32}},
    {"f32 naive", {.compute = DType::f32, .attn = AttnImpl::naive}},
    {"bf16 absorb", {}},
    {"bf16 naive", {.attn = AttnImpl::naive}},
    {"bf16 absorb, plain operations", {.fused = false}},
    {"fp8 absorb", {.gemm = GemmMode::fp8}},
    {"fp8 naive", {.gemm = GemmMode::fp8, .attn = AttnImpl::naive}},
};

// In float32 each row is within 4e-5: both are within 2e-5 of the truth (golden_test). With narrower types both are
// roundings of the same computation in different orders: two independent errors, sqrt(2) times one; the bound is twice.
TEST_F(DeviceTest, LogitsAreTheCpusInEveryMode) {
  const std::string device = std::getenv("FATHOM_TEST_DEVICE");
  for (const char* name : {"v3-fp8", "v31-fp8-ue8m0", "v2lite-bf16"}) {
    const Golden golden(name);
    const auto exact = rows_of(golden, "cpu", kModes[0].options);
    for (const Mode& mode : kModes) {
      if (mode.options.gemm == GemmMode::fp8 && !golden.args.format().has_scale()) continue;
      const auto ours = rows_of(golden, device, mode.options), cpu = rows_of(golden, "cpu", mode.options);
      if (mode.options.compute == DType::f32) {
        double largest = 0;
        for (std::size_t i = 0; i < cpu.size(); ++i) largest = std::max(largest, relative_error(ours[i], cpu[i]));
        std::printf("%s %s: largest row error against the CPU %.2e\n", name, mode.name, largest);
        EXPECT_LT(largest, 4e-5) << name << " " << mode.name;
        continue;
      }
      expect_near(fmt::format("{} {} against the CPU", name, mode.name), distance_of(ours, cpu, exact));
    }
  }
}

// Eight sequences of different lengths in one pass, then token by token: in float32 each gets what it gets alone, in
// bf16 within what rounding in another order makes.
TEST_F(DeviceTest, EightRaggedPromptsAreAsAlone) {
  const std::string device = std::getenv("FATHOM_TEST_DEVICE");
  const Golden golden("v3-fp8");
  const std::vector<int> all = golden.ids("p300"), forced = golden.forced("p17");
  const std::vector<std::size_t> lengths = {1, 300, 17, 64, 2, 129, 33, 250};
  ModelSession::Rows exact;
  for (const DType compute : {DType::f32, DType::bf16}) {
    ModelSession::Settings settings;
    settings.options.compute = compute;
    settings.device = device;
    ModelSession session(golden.args, *golden.weights, settings);
    ModelSession::Rows alone, together;
    std::vector<ModelSession::Piece> pieces;
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      const std::vector<int> prompt(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(lengths[s]));
      pieces.push_back({static_cast<int>(s), prompt});
      for (auto& row : session.run(99, prompt, forced)) alone.push_back(std::move(row));
      session.forget(99);
    }
    std::vector<ModelSession::Rows> steps{session.step(pieces)};
    for (const int id : forced) {
      for (auto& piece : pieces) piece.tokens = {id};
      steps.push_back(session.step(pieces));
    }
    for (std::size_t s = 0; s < lengths.size(); ++s)
      for (const auto& step : steps) together.push_back(step[s]);
    if (compute == DType::f32) {
      for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_LT(relative_error(together[i], alone[i]), 5e-6) << i;
      exact = alone;
      continue;
    }
    expect_near("eight prompts in bf16 against each alone", distance_of(together, alone, exact));
  }
}

}  // namespace
}  // namespace fathom::test
