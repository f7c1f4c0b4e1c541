// The model against the reference's and transformers' values, checkpoint by checkpoint. FATHOM_TEST_DEVICE chooses the
// device (default cpu).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "support/golden.h"
#include "support/model_session.h"

namespace fathom::test {
namespace {

bool sanitized() { return std::getenv("FATHOM_TEST_SANITIZED") != nullptr; }

// The checkpoint's prompts. Long ones take too long under a sanitizer; short ones pass through the same code.
std::vector<std::string> prompts_of(const Golden& golden) {
  std::vector<std::string> names = {"p1", "p17"};
  if (sanitized()) {
    std::printf("sanitized run: p300 and p5000 are left out\n");
    return names;
  }
  names.push_back("p300");
  if (golden.json["prompts"].contains("p5000")) names.push_back("p5000");
  return names;
}

ModelSession::Settings settings_for(DType compute, AttnImpl attn, GemmMode gemm = GemmMode::bf16) {
  ModelSession::Settings settings;
  settings.options = {compute, gemm, attn, gemm == GemmMode::fp8};  // the fp8 goldens follow the reference's scale_fmt
  settings.blocks = 180;
  if (const char* device = std::getenv("FATHOM_TEST_DEVICE")) settings.device = device;
  return settings;
}

const char* name_of_attn(AttnImpl attn) { return attn == AttnImpl::absorb ? "absorb" : "naive"; }

// Error of each row of a run over all prompts, or of the reference's own run, against the truth.
struct Errors {
  std::vector<double> ours, reference;
};

Errors compare(const Golden& golden, ModelSession& session, const std::string& variant) {
  Errors errors;
  for (const std::string& prompt : prompts_of(golden)) {
    const auto truth = golden.rows(prompt + ".truth-fp32");
    const auto reference = golden.rows(prompt + "." + variant);
    const auto ours = session.run(0, golden.ids(prompt), golden.forced(prompt));
    session.forget(0);
    EXPECT_EQ(ours.size(), truth.size());
    for (std::size_t i = 0; i < truth.size(); ++i) {
      errors.ours.push_back(relative_error(ours[i], truth[i]));
      errors.reference.push_back(relative_error(reference[i], truth[i]));
    }
  }
  return errors;
}

class GoldenTest : public testing::TestWithParam<std::tuple<std::string, AttnImpl>> {
 protected:
  void SetUp() override {
    const bool other_form = std::get<0>(GetParam()) == "v2-bf16" || std::get<0>(GetParam()) == "v31-fp8-ue8m0";
    if (sanitized() && (attn_ == AttnImpl::naive) != other_form)
      GTEST_SKIP() << "sanitized run: each checkpoint in one form of attention";
  }

  Golden golden_{std::get<0>(GetParam())};
  AttnImpl attn_ = std::get<1>(GetParam());
};

// float32: every row within 2e-5, at 5,000 tokens 3e-4 (one ulp of a rotary frequency turns the angle by 2e-4 there).
TEST_P(GoldenTest, Float32EqualsTruth) {
  ModelSession session(golden_.args, *golden_.weights, settings_for(DType::f32, attn_));
  for (const std::string& prompt : prompts_of(golden_)) {
    const auto truth = golden_.rows(prompt + ".truth-fp32");
    const double bound = prompt == "p5000" ? 3e-4 : 2e-5;
    const std::vector<i64> chunks = prompt == "p5000" ? std::vector<i64>{512} : std::vector<i64>{0, 1, 7, 64};
    for (const i64 chunk : chunks) {
      const auto ours = session.run(0, golden_.ids(prompt), golden_.forced(prompt), chunk);
      session.forget(0);
      ASSERT_EQ(ours.size(), truth.size());
      for (std::size_t i = 0; i < truth.size(); ++i)
        EXPECT_LT(relative_error(ours[i], truth[i]), bound) << prompt << " chunk " << chunk << " row " << i;
    }
  }
}

TEST_P(GoldenTest, Float32HiddenStates) {
  ModelSession session(golden_.args, *golden_.weights, settings_for(DType::f32, attn_));
  session.keep_hidden = true;
  session.run(0, golden_.ids("p17"));
  for (std::size_t layer = 0; layer < session.hidden().size(); ++layer) {
    std::vector<float> truth;
    for (const auto& row : golden_.rows(fmt::format("hidden.{}.truth-fp32", layer)))
      truth.insert(truth.end(), row.begin(), row.end());
    EXPECT_LT(relative_error(session.hidden()[layer], truth), 2e-5) << "layer " << layer;
  }
}

// bf16: over all rows the median error is at most 1.25 times the reference's own.
TEST_P(GoldenTest, Bf16IsAsCloseAsTheReference) {
  ModelSession session(golden_.args, *golden_.weights, settings_for(DType::bf16, attn_));
  const Errors errors = compare(golden_, session, fmt::format("ref-bf16-{}", name_of_attn(attn_)));
  const double ours = median(errors.ours), reference = median(errors.reference);
  std::printf("%s %s bf16: median row error %.3e, reference %.3e\n", std::get<0>(GetParam()).c_str(),
              name_of_attn(attn_), ours, reference);
  if (sanitized()) return;  // two short prompts are too few for a median
  EXPECT_LT(ours, 1.25 * reference);
  EXPECT_GT(ours, 1e-5) << "bf16 that is exact is not bf16";
}

// Layer by layer, the median row error is at most 1.25 times the reference's. Routing is discrete: where two experts
// are nearly level, bf16 may choose the other one, the row's error jumps by an order of magnitude, and all later rows
// attend to it in all later layers. So a layer is judged by the rows before the first row that has jumped.
// They were recorded for the absorbed form; the naive one is measured by the same errors.
TEST_P(GoldenTest, Bf16HiddenStates) {
  ModelSession session(golden_.args, *golden_.weights, settings_for(DType::bf16, attn_));
  session.keep_hidden = true;
  session.run(0, golden_.ids("p17"));
  const i64 dim = golden_.args.dim;
  std::size_t sound = golden_.ids("p17").size(), judged = 0;
  for (std::size_t layer = 0; layer < session.hidden().size(); ++layer) {
    const auto truth = golden_.rows(fmt::format("hidden.{}.truth-fp32", layer));
    const auto reference = golden_.rows(fmt::format("hidden.{}.ref-bf16-absorb", layer));
    std::vector<double> ours, theirs;
    for (std::size_t row = 0; row < truth.size(); ++row) {
      const auto* start = session.hidden()[layer].data() + static_cast<i64>(row) * dim;
      ours.push_back(relative_error(std::vector<float>(start, start + dim), truth[row]));
      theirs.push_back(relative_error(reference[row], truth[row]));
    }
    const double usual = median(theirs);
    for (std::size_t row = 0; row < sound; ++row)
      if (ours[row] > 5 * usual) sound = row;
    if (sound < ours.size()) std::printf("layer %zu: another expert chosen at row %zu\n", layer, sound);
    ours.resize(sound);
    judged += sound;
    if (ours.empty()) continue;
    EXPECT_LT(median(ours), 1.25 * usual) << "layer " << layer;
  }
  EXPECT_GE(judged, session.hidden()[0].size() / static_cast<std::size_t>(dim)) << "too few rows to judge";
}

// FP8 products, recorded for the absorbed form. Their noise changes which experts are chosen in nearly half of all
// rows, the reference's too, and such rows are three times as far off, so that the median falls on either side by
// chance. Judged are the rows that kept their experts, by the lower quartile, and how many have lost them, as a count
// of independent rows of the reference's share would vary (three standard deviations).
class GoldenFp8Test : public GoldenTest {
 protected:
  static double lower_quartile(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 4];
  }
};

TEST_P(GoldenFp8Test, GemmIsAsCloseAsTheReference) {
  ModelSession session(golden_.args, *golden_.weights, settings_for(DType::bf16, attn_, GemmMode::fp8));
  const Errors errors = compare(golden_, session, "ref-fp8-absorb");
  const double ours = lower_quartile(errors.ours), reference = lower_quartile(errors.reference);
  const auto lost = [&](const std::vector<double>& rows) {
    return static_cast<double>(std::count_if(rows.begin(), rows.end(), [&](double e) { return e > 2 * reference; }));
  };
  const double rows = static_cast<double>(errors.ours.size()), share = lost(errors.reference) / rows;
  std::printf(
      "%s %s fp8 gemm: median row error %.3e, reference %.3e; lower quartile %.3e, %.3e; "
      "other experts in %g, %g of %g rows\n",
      std::get<0>(GetParam()).c_str(), name_of_attn(attn_), median(errors.ours), median(errors.reference), ours,
      reference, lost(errors.ours), lost(errors.reference), rows);
  if (sanitized()) return;
  EXPECT_LT(ours, 1.25 * reference);
  EXPECT_LE(lost(errors.ours), lost(errors.reference) + 3 * std::sqrt(2 * rows * share * (1 - share)));
}

// A ragged batch, with prefill and decode in one pass, gives each sequence what it gets alone.
TEST_P(GoldenTest, RaggedBatchEqualsAlone) {
  ModelSession session(golden_.args, *golden_.weights, settings_for(DType::f32, attn_));
  const std::vector<int> forced = golden_.forced("p17");
  const std::vector<std::string> prompts = {"p17", "p1", "p300"};
  std::vector<ModelSession::Rows> alone;
  for (const std::string& prompt : prompts) {
    alone.push_back(session.run(0, golden_.ids(prompt), forced));
    session.forget(0);
  }
  const auto check = [&](std::size_t which, std::size_t row, const std::vector<float>& logits) {
    EXPECT_LT(relative_error(logits, alone[which][row]), 5e-6) << prompts[which] << " row " << row;
  };
  auto first = session.step({{0, golden_.ids("p17")}, {1, golden_.ids("p1")}});
  check(0, 0, first[0]);
  check(1, 0, first[1]);
  auto mixed = session.step({{0, {forced[0]}}, {2, golden_.ids("p300")}, {1, {forced[0]}}});
  check(0, 1, mixed[0]);
  check(2, 0, mixed[1]);
  check(1, 1, mixed[2]);
  for (std::size_t i = 1; i < forced.size(); ++i) {
    const auto rows = session.step({{1, {forced[i]}}, {0, {forced[i]}}, {2, {forced[i - 1]}}});
    check(1, i + 1, rows[0]);
    check(0, i + 1, rows[1]);
    check(2, i, rows[2]);
  }
}

std::string name_of_case(const testing::TestParamInfo<GoldenTest::ParamType>& which) {
  std::string name = std::get<0>(which.param) + "_" + name_of_attn(std::get<1>(which.param));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

constexpr AttnImpl kForms[] = {AttnImpl::absorb, AttnImpl::naive};

INSTANTIATE_TEST_SUITE_P(All, GoldenTest,
                         testing::Combine(testing::ValuesIn(golden_names()), testing::ValuesIn(kForms)), name_of_case);
INSTANTIATE_TEST_SUITE_P(Fp8, GoldenFp8Test,
                         testing::Combine(testing::Values("v3-fp8", "v31-fp8-ue8m0"),
                                          testing::Values(AttnImpl::absorb)),
                         name_of_case);

}  // namespace
}  // namespace fathom::test
