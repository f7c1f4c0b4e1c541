// Speed of the CPU kernels on one thread: GFLOP/s of products, GB/s of weights read, for each instruction set. Times
// are processor time of this thread, so that a busy machine disturbs little.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <vector>

#include "base/numeric.h"
#include "kernels/cpu/kernels.h"

namespace fathom {
namespace {

double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <typename F>
double best_of(int rounds, F&& f) {
  double best = 1e9;
  for (int i = 0; i < rounds; ++i) {
    const double start = now();
    f();
    best = std::min(best, now() - start);
  }
  return best;
}

struct TypeRow {
  const char* name;
  Element type;
  i64 bytes;
};
constexpr TypeRow kTypes[] = {{"f32", Element::f32, 4}, {"bf16", Element::bf16, 2}, {"fp8", Element::e4m3, 1}};

void gemm(const CpuKernels& kernels, const char* isa, const TypeRow& type, i64 rows) {
  const i64 in = 2048, out = rows <= 4 ? 8192 : 960, step = padded_step(in);
  std::vector<std::uint8_t> weights(static_cast<std::size_t>(in * out * type.bytes));
  for (i64 i = 0; i < in * out; ++i) {
    const auto value = static_cast<float>((i * 7 + i / 13) % 17 - 8) * 0.25f;
    if (type.type == Element::f32) reinterpret_cast<float*>(weights.data())[i] = value;
    if (type.type == Element::bf16) reinterpret_cast<bf16_bits*>(weights.data())[i] = float_to_bf16(value);
    if (type.type == Element::e4m3) weights[static_cast<std::size_t>(i)] = float_to_e4m3(value);
  }
  const std::vector<float> scales(static_cast<std::size_t>(in * out / 128), 0.01f);
  const std::vector<float> x(static_cast<std::size_t>(rows * step), 1.5f);
  std::vector<float> y(static_cast<std::size_t>(rows * out)), scratch(kGemmScratch);
  const GemmArgs args{x.data(),
                      step,
                      rows,
                      in,
                      {weights.data(), in * type.bytes, type.type, scales.data(), in / 128},
                      0,
                      out,
                      y.data(),
                      out * 4,
                      Element::f32,
                      scratch.data()};
  const double seconds = best_of(5, [&] { kernels.gemm(args); });
  fmt::print("{:8} {:5} gemm {:3} x {} x {}: {:6.1f} GFLOP/s {:6.2f} GB/s\n", isa, type.name, rows, out, in,
             2e-9 * static_cast<double>(rows * in * out) / seconds,
             1e-9 * static_cast<double>(in * out * type.bytes) / seconds);
}

// The absorbed form: 128 queries, a span of keys, latent 512 and rope 64.
void attend(const CpuKernels& kernels, const char* isa) {
  const i64 rows = 128, key = 576, value = 512, step = padded_step(key), o_step = padded_step(value);
  const std::vector<float> q(static_cast<std::size_t>(rows * step), 0.1f);
  const std::vector<float> k(static_cast<std::size_t>(kSpanKeys * step), 0.2f);
  std::vector<float> scores(static_cast<std::size_t>(rows * kSpanKeys)), o(static_cast<std::size_t>(rows * o_step));
  std::vector<float> top(static_cast<std::size_t>(rows)), sum(static_cast<std::size_t>(rows));
  const std::vector<std::int32_t> visible(static_cast<std::size_t>(rows), static_cast<std::int32_t>(kSpanKeys));
  const SpanArgs args{q.data(), k.data(), step, k.data(), step, rows, kSpanKeys, visible.data(), 0.1f, scores.data()};
  const SoftmaxSums out{top.data(), sum.data(), o.data(), o_step};
  const double seconds = best_of(20, [&] { kernels.attend_span(args, out); });
  fmt::print("{:8} latent attention, 128 queries: {:6.1f} GFLOP/s\n", isa,
             2e-9 * static_cast<double>(rows * kSpanKeys * (key + value)) / seconds);
}

}  // namespace
}  // namespace fathom

int main() {
  using namespace fathom;
  for (const Isa isa : {Isa::generic, Isa::avx2, Isa::avx512}) {
    if (!has_isa(isa)) continue;
    for (const TypeRow& type : kTypes)
      for (const i64 rows : {1, 2, 4, 16, 64, 256}) gemm(cpu_kernels(isa), name_of(isa), type, rows);
    attend(cpu_kernels(isa), name_of(isa));
  }
}
