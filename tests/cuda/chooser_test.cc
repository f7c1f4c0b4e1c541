// Which kernel computes a product: the table of kernels, without a GPU.
#include "kernels/cuda/linear/chooser.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <vector>

#include "kernels/cuda/linear/kernels.h"
#include "kernels/cuda/linear/mma_plan.h"
#include "kernels/cuda/sm90/gemm_plan.h"

namespace fathom::cuda {
namespace {

constexpr std::string_view kChoices[] = {
#include "cuda/product_choices.txt"
};

Device h200(bool portable) {
  Device d;
  d.multiprocessors = 132;
  d.shared_bytes = 227 * 1024;
  d.capability = 90;
  d.sm90a = !portable;
  return d;
}

// Powers of two up to 8,192 and their neighbours.
std::vector<i64> row_counts() {
  std::set<i64> rows;
  for (i64 p = 1; p <= 8192; p *= 2)
    for (const i64 n : {p - 1, p, p + 1})
      if (n >= 1 && n <= 8192) rows.insert(n);
  return {rows.begin(), rows.end()};
}

// What is enqueued: rows made ready by kernels of their own, then the product; kernels of one matrix once for each.
std::string text_of(const Choice& c, const ProductShape& shape, const Device& device) {
  if (c.kernel == nullptr) return "none";
  const std::string name = c.kernel->name;
  std::string all = c.plan.norm_first ? "norm+" : "";
  if (c.plan.codes == Codes::by_row) all += "codes_by_row+";
  if (c.plan.codes == Codes::by_column) all += "codes_by_column+";
  if (name == "gemv")
    return all + "gemv" + (shape.norm && !c.plan.norm_first ? ":norm" : "") +
           (c.plan.codes == Codes::in_kernel ? ":codes" : "");
  if (name == "sm90_splitk")
    return all + fmt::format("splitk({},{},{},{})", c.plan.outputs, c.plan.splits, c.plan.rows, c.plan.at_once);
  for (int i = 0; i < shape.parts; ++i) {
    all += i > 0 ? "+" : "";
    all += name == "sm90_gemm" ? fmt::format("gemm({})", gemm_tile_rows(shape, i, device.multiprocessors)) : name;
  }
  return all;
}

// A line of the table.
struct Line {
  Device device;
  ProductShape shape;
  std::vector<std::pair<i64, std::string>> from;  // rows, and what is done from there on

  explicit Line(std::string_view text) {
    std::istringstream in{std::string(text)};
    std::string where, op, outs, formats, item;
    i64 n = 1;
    in >> where >> op >> shape.in >> outs >> n >> formats;
    device = h200(where == "portable");
    std::istringstream widths(outs);
    for (shape.parts = 0; std::getline(widths, item, ',');) shape.out[shape.parts++] = std::stoll(item);
    set_operation(op, n);
    shape.w = formats == "f32" ? Type::f32 : formats == "bf16" ? Type::bf16 : Type::e4m3;
    const i64 bytes = shape.w == Type::f32 ? 4 : shape.w == Type::bf16 ? 2 : 1;
    shape.w_aligned = shape.in * bytes % 16 == 0;
    const bool codes = formats == "fp8/fp8";
    shape.quantise = codes && !shape.between_experts;
    if (codes && shape.between_experts) shape.x = Type::e4m3;  // the kernel before it has made them
    shape.x_aligned = op.find("-unaligned") == std::string::npos && shape.in * (shape.x == Type::f32 ? 4 : 2) % 16 == 0;
    while (in >> item) {
      const std::size_t colon = item.find(':');
      from.emplace_back(std::stoll(item), colon == std::string::npos ? "" : item.substr(colon + 1));
    }
  }

 private:
  void set_operation(const std::string& name, i64 n) {
    const std::string op = name.substr(0, name.find('-'));
    shape.norm = op == "norm";
    shape.add = op == "add" || op == "experts";
    shape.between_experts = op == "experts";
    shape.y_f32 = shape.add || op == "linear" || op == "linear_f32";
    if (op == "norm" || op == "linear_f32") shape.x = Type::f32;
    if (op == "heads") shape.heads = n;
    if (op == "grouped" || op == "grouped_swiglu") shape.groups = n;
    if (op == "grouped_swiglu") shape.out[shape.parts++] = shape.out[0];
  }
};

TEST(Chooser, TakesWhatWasMeasuredToBeTheFastest) {
  int compared = 0;
  for (const std::string_view text : kChoices) {
    Line line(text);
    for (std::size_t i = 0; i < line.from.size(); ++i) {
      const i64 end = i + 1 < line.from.size() ? line.from[i + 1].first : line.shape.between_experts ? 257 : 8193;
      for (const i64 rows : row_counts()) {
        if (rows < line.from[i].first || rows >= end || line.from[i].second.empty()) continue;
        line.shape.rows = rows;
        const std::string got = text_of(choose(line.shape, line.device), line.shape, line.device);
        ASSERT_EQ(got, line.from[i].second) << rows << " rows of: " << text.substr(0, text.find(':'));
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 40000);
}

TEST(Chooser, OneKernelIsTheCheapest) {
  for (const std::string_view text : kChoices)
    for (const int multiprocessors : {132, 114, 78}) {
      Line line(text);
      line.device.multiprocessors = multiprocessors;
      for (const i64 rows : row_counts()) {
        if (line.shape.between_experts && rows > 256) continue;
        line.shape.rows = rows;
        std::set<double> costs;
        int supporting = 0;
        for (const ProductKernel& k : product_kernels())
          if (k.supports(line.shape, line.device)) ++supporting, costs.insert(k.cost(line.shape));
        const Choice c = choose(line.shape, line.device);
        SCOPED_TRACE(testing::Message() << rows << " rows of: " << text.substr(0, text.find(':')));
        ASSERT_EQ(static_cast<int>(costs.size()), supporting) << "two kernels cost the same";
        ASSERT_TRUE(c.kernel != nullptr || line.shape.add);  // sums have a plain form
        if (c.kernel == nullptr) continue;
        ASSERT_TRUE(c.kernel->supports(line.shape, line.device));
        ASSERT_EQ(c.kernel->cost(line.shape), *costs.begin());
      }
    }
}

TEST(Chooser, ChoicesAreDescribed) {
  ProductShape s;
  s.rows = 64, s.in = 7168, s.out[0] = 2112, s.w = Type::e4m3, s.quantise = s.norm = true;
  // 17 tiles of 128 outputs in 8 parts each would be 136 blocks: four more than the multiprocessors.
  EXPECT_EQ(describe(choose(s, h200(false))), "sm90_splitk  tile 112 x  64  splits 8  norm first  codes by column");
  s.rows = 1, s.quantise = false, s.x = Type::f32;
  EXPECT_EQ(describe(choose(s, h200(true))), "gemv         tile  16 x   8  splits 1");
  s.norm = false, s.add = true;
  EXPECT_EQ(describe(choose(s, h200(true))), "none: the plain form");
  s.rows = 4096, s.add = false, s.quantise = true, s.x = Type::bf16;
  EXPECT_EQ(describe(choose(s, h200(true))), "mma          tile 256 x 128  splits 1  stages 4  codes by row");
}

TEST(Chooser, ShapesAreThoseOfTheProduct) {
  alignas(16) static constexpr char memory[64] = {};
  Product p;
  p.part[0] = {{memory, nullptr, Type::e4m3, false, 1, 200, 256}, nullptr, Type::f32, 200};
  p.part[1] = {{memory, nullptr, Type::e4m3, false, 1, 72, 256}, nullptr, Type::bf16, 72};
  p.parts = 2;
  p.rows = 3;
  p.x = memory;
  p.x_stride = 256;
  ProductShape s = shape_of(p);
  EXPECT_EQ(s.outputs(), 272);
  EXPECT_TRUE(s.x_aligned && s.w_aligned && s.mixed() && s.groups == 0 && !s.y_f32);
  p.x_stride = 260;
  EXPECT_FALSE(shape_of(p).x_aligned);
  p.part[0].w.in = p.part[1].w.in = 200;
  EXPECT_FALSE(shape_of(p).w_aligned);
  p.quantise = true;
  EXPECT_FALSE(shape_of(p).mixed());
  const std::int32_t offsets[4] = {};
  p.offsets = offsets, p.part[0].w.count = 3;
  EXPECT_EQ(shape_of(p).groups, 3);
}

TEST(Chooser, ScratchHoldsWhatIsMadeFirst) {
  ProductShape s;
  s.rows = 5, s.in = 256;
  EXPECT_EQ(scratch_bytes(s, {}), 0);
  EXPECT_EQ(scratch_bytes(s, {.codes = Codes::in_kernel}), 0);
  EXPECT_EQ(scratch_bytes(s, {.norm_first = true}), 2560);               // 5 * 256 bf16
  EXPECT_EQ(scratch_bytes(s, {.codes = Codes::by_column}), 1280 + 256);  // codes; 2 x 8 scales
  EXPECT_EQ(scratch_bytes(s, {.norm_first = true, .codes = Codes::by_row}), 2560 + 1280 + 256);
}

// Of compute capability 8.0; 8.6, 8.9 and 12.0; 9.0: a block's shared memory at most.
constexpr int kShared80 = 166912, kShared86 = 101376, kShared90 = 232448;

TEST(Chooser, TilesFitEveryCard) {
  struct Card {
    int capability, shared_bytes, stages[3];  // of bf16, of FP8 weights, of codes with codes
  };
  for (const Card& card :
       {Card{80, kShared80, {3, 4, 4}}, Card{86, kShared86, {2, 3, 4}}, Card{89, kShared86, {2, 3, 4}},
        Card{90, kShared90, {4, 4, 4}}, Card{120, kShared86, {2, 3, 4}}}) {
    SCOPED_TRACE(card.capability);
    Device d;
    d.multiprocessors = 108, d.shared_bytes = card.shared_bytes, d.capability = card.capability;
    ProductShape s;
    s.rows = 4096, s.in = 7168, s.out[0] = 2112;
    for (const Kind kind : {Kind::bf16, Kind::mixed, Kind::fp8}) {
      s.w = kind == Kind::bf16 ? Type::bf16 : Type::e4m3;
      s.quantise = kind == Kind::fp8;
      const Choice c = choose(s, d);
      ASSERT_STREQ(c.kernel->name, "mma");
      EXPECT_EQ(c.plan.stages, card.stages[kind == Kind::bf16 ? 0 : kind == Kind::mixed ? 1 : 2]);
      EXPECT_GE(c.plan.stages, 2);
      EXPECT_LE(c.plan.stages * mma_stage_bytes(kind), card.shared_bytes);
    }
  }
}

// GEMV's blocks hold rows and, for up to 16 warps of 16 outputs x 8 tokens, sums with a column between them.
TEST(Chooser, RowsAndSumsFitEveryCard) {
  for (const int shared_bytes : {kShared80, kShared86, kShared90})
    for (i64 rows = 1; rows <= 8; ++rows) {
      Device d;
      d.shared_bytes = shared_bytes;
      i64 in = 128;
      while (input_fits_shared(d, rows, in + 128)) in += 128;
      EXPECT_LE(rows * (2 * in + 16) + 16 * 16 * 9 * 4, shared_bytes) << rows << " rows of " << in;
    }
}

TEST(Chooser, RowsFitSharedMemory) {
  Device d = h200(false);
  EXPECT_TRUE(input_fits_shared(d, 8, 7168));
  EXPECT_FALSE(input_fits_shared(d, 9, 128));    // a block makes eight ready
  EXPECT_FALSE(input_fits_shared(d, 8, 16384));  // 8 rows of 32 KiB
  d.shared_bytes = 99 * 1024;
  EXPECT_FALSE(input_fits_shared(d, 8, 7168));
}

}  // namespace
}  // namespace fathom::cuda
