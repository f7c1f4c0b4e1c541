#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu/cpu_backend.h"
#include "support/host_tensor.h"

namespace fathom {
namespace {

using namespace test;

TEST(AddBoth, AddsBoth) {
  CpuBackend backend(2, Isa::generic);
  Random random(1);
  HostTensor x({3, 5}, DType::f32), y({3, 5}, DType::f32), z({3, 5}, DType::bf16);
  x.normal(random), y.normal(random), z.normal(random);
  const std::vector<double> a = values(*x), b = values(*y), c = values(*z);
  std::vector<Expected> expected;
  for (std::size_t i = 0; i < a.size(); ++i)
    expected.push_back({a[i] + b[i] + c[i], std::fabs(a[i]) + std::fabs(b[i]) + std::fabs(c[i])});
  backend.run(op::AddBoth{*x, *y, *z});
  expect_close(x, expected);
}

}  // namespace
}  // namespace fathom
