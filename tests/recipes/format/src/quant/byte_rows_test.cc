#include "quant/byte_rows.h"

#include <gtest/gtest.h>

#include <vector>

#include "quant/weight.h"

namespace fathom {
namespace {

TEST(ByteRows, AreFoundByWhatIsStored) {
  EXPECT_EQ(find_format(DType::u8, true, kBf16), &kByteRows);
  EXPECT_EQ(find_format(DType::u8, false, kBf16), nullptr);
}

// Rows of 70 numbers are two groups, of which the second has six.
TEST(ByteRows, ReturnMultiplesOfTheStep) {
  const i64 out = 3, in = 70;
  std::vector<float> w(out * in), y(w.size());
  for (i64 i = 0; i < out * in; ++i)
    w[i] = static_cast<float>(i % in % 64 == 5 ? 127 : i % 7 - 3) * (i % in < 64 ? 0.5f : 2.0f);
  std::vector<std::uint8_t> data(w.size());
  std::vector<float> scale(6);
  kByteRows.quantize(w.data(), out, in, data.data(), scale.data(), nullptr);
  EXPECT_EQ(scale, (std::vector<float>{0.5f, 2, 0.5f, 2, 0.5f, 2}));
  const Weight weight{Tensor(data.data(), DType::u8, kByteRows.data_shape(out, in)),
                      Tensor(scale.data(), DType::f32, kByteRows.scale_shape(out, in)), &kByteRows};
  weight.dequantize(y.data());
  EXPECT_EQ(y, w);
  weight.rows(1, 2).dequantize(y.data());
  EXPECT_TRUE(std::equal(w.begin() + in, w.end(), y.begin()));
}

}  // namespace
}  // namespace fathom
