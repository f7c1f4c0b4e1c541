// Speed of the CUDA kernels of decode steps on the shapes of the published models. Each line: a kernel, its shape,
// microseconds, GB/s of what it must read, and its share of 4.3 TB/s. Weights rotate, so that none is found in a cache;
// the launches of a line are one recorded graph.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>

#include "backends/cuda/cuda_backend.h"

namespace fathom {
namespace {

constexpr double kBandwidth = 4.3e12;
constexpr i64 kRotated = i64{400} << 20;  // bytes of weights of a line, many times the second-level cache

using Clock = std::chrono::steady_clock;

class Bench {
 public:
  Tensor tensor(const Shape& shape, DType dtype, bool random = true) {
    storages_.push_back(gpu_.allocate(static_cast<std::size_t>(shape.numel() * size_of(dtype))));
    Tensor x(storages_.back().data(), dtype, shape, gpu_.device());
    if (random) gpu_.try_run(op::FillRandom{x, storages_.size()});
    return x;
  }
  Tensor ints(const Shape& shape, const std::function<int(i64)>& f) {
    Tensor x = tensor(shape, DType::i32, false);
    std::vector<int> values(static_cast<std::size_t>(shape.numel()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = f(static_cast<i64>(i));
    gpu_.upload(x, values.data());
    gpu_.synchronize();
    return x;
  }
  Weight weight(const Format& format, Shape shape) {
    Weight w{tensor(shape, format.element()), {}, &format};
    for (int d = std::max(0, shape.rank() - 2); d < shape.rank(); ++d) shape[d] = (shape[d] + 127) / 128;
    if (format.has_scale()) w.scale = tensor(shape, DType::f32);
    return w;
  }
  void clear() {
    gpu_.synchronize();
    storages_.clear();
  }

  // Seconds of one of `launches` launches of `pass`: what three replays take longer than one, the least of a few times.
  double time(int launches, const std::function<void(int)>& pass) {
    const auto all = [&] {
      for (int i = 0; i < launches; ++i) pass(i);
    };
    all();  // scratch grows here
    const auto graph = gpu_.capture(all);
    double least[2] = {1e30, 1e30};
    for (int round = 0; round < 10; ++round) {
      gpu_.synchronize();
      const auto start = Clock::now();
      for (int i = 0; i < 1 + round % 2 * 2; ++i) graph->replay();
      gpu_.synchronize();
      double& best = least[round % 2];
      best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
    }
    return (least[1] - least[0]) / (2 * launches);
  }

  CudaBackend& gpu() { return gpu_; }

 private:
  CudaBackend gpu_{0};
  std::vector<Storage> storages_;
};

void report(const std::string& what, double seconds, double bytes, double flops) {
  fmt::print("{:58} {:9.2f} us {:8.0f} GB/s {:6.1f} % {:8.1f} TFLOP/s\n", what, seconds * 1e6, bytes / seconds * 1e-9,
             100 * bytes / seconds / kBandwidth, flops / seconds * 1e-12);
  std::fflush(stdout);
}

// A product of a model, whose results are added to float32 rows (`adds`) or written as `type`.
struct Dense {
  const char* what;
  i64 n, k;
  bool adds = false;
  DType type = DType::bf16;
};

void product(Bench& bench, const Format& format, GemmMode mode, i64 m, const Dense& d) {
  const auto [what, n, k, adds, type] = d;
  const double bytes = static_cast<double>(n * k) * size_of(format.element());
  const int copies = static_cast<int>(std::clamp<i64>(kRotated / static_cast<i64>(bytes), 2, 64));
  std::vector<Weight> ws;
  for (int i = 0; i < copies; ++i) ws.push_back(bench.weight(format, {n, k}));
  const Tensor x = bench.tensor({m, k}, DType::bf16), y = bench.tensor({m, n}, adds ? DType::f32 : type);
  const double seconds = bench.time(copies, [&](int i) {
    const Weight& w = ws[static_cast<std::size_t>(i)];
    if (adds)
      CHECK(bench.gpu().try_run(op::LinearAdd{y, x, w, mode}), "no kernel");
    else
      bench.gpu().run(op::Linear{y, x, w, mode});
  });
  report(fmt::format("product {} gemm {} M {} N {} K {}", format.has_scale() ? "fp8" : "bf16",
                     mode == GemmMode::fp8 ? "fp8" : "bf16", m, n, k),
         seconds, bytes, 2 * static_cast<double>(m * n * k));
  bench.clear();
}

struct Moe {
  const char* name;
  i64 dim, inter, experts, shared;
  RouteArgs route;
};
const Moe kMoes[] = {{"16B", 2048, 1408, 64, 2816, {6, 1, 1, false, false, 1}},
                     {"236B", 5120, 1536, 160, 3072, {6, 8, 3, false, false, 16}},
                     {"671B", 7168, 2048, 256, 2048, {8, 8, 4, true, true, 2.5f}}};

void experts(Bench& bench, const Moe& m, const Format& format, GemmMode mode, i64 tokens) {
  constexpr int kLayers = 3;
  std::vector<ExpertsLayer> layers;
  for (int i = 0; i < kLayers; ++i) {
    const auto w = [&](const Shape& shape) { return bench.weight(format, shape); };
    const Tensor bias = m.route.sigmoid ? bench.tensor({m.experts}, DType::f32) : Tensor{};
    layers.push_back(
        {.gate = {bench.weight(kBf16, {m.experts, m.dim}), bias, m.route},
         .experts = {w({m.experts, m.inter, m.dim}), w({m.experts, m.dim, m.inter}), w({m.experts, m.inter, m.dim})},
         .first = 0,
         .shared = {w({m.shared, m.dim}), w({m.dim, m.shared}), w({m.shared, m.dim})}});
  }
  const Norm norm{bench.tensor({m.dim}, DType::f32), 1e-6f};
  const Tensor seed = bench.tensor({tokens, m.dim}, DType::bf16), h = bench.tensor({tokens, m.dim}, DType::f32);
  bench.gpu().run(op::Copy{h, seed});
  const double seconds = bench.time(6 * kLayers, [&](int i) {
    const ExpertsLayer& layer = layers[static_cast<std::size_t>(i % kLayers)];
    CHECK(bench.gpu().try_run(op::Experts{h, h, norm, layer, true, mode}), "no kernels");
  });
  const auto count = static_cast<double>(m.experts);
  const double chosen = count * (1 - std::pow(1 - static_cast<double>(m.route.top_k) / count, tokens));
  const double width = static_cast<double>(3 * m.dim) * size_of(format.element());
  const double bytes = width * (chosen * static_cast<double>(m.inter) + static_cast<double>(m.shared)) +
                       2 * count * static_cast<double>(m.dim);
  report(fmt::format("experts {} {} gemm {} M {}", m.name, format.has_scale() ? "fp8" : "bf16",
                     mode == GemmMode::fp8 ? "fp8" : "bf16", tokens),
         seconds, bytes, 6 * static_cast<double>(tokens * m.dim * (m.route.top_k * m.inter + m.shared)));
  bench.clear();
}

void attention(Bench& bench, i64 heads, i64 context, i64 tokens) {
  constexpr i64 kBlock = 64;
  const i64 width = context / kBlock, bytes = tokens * context * 576 * 2;
  const int copies = static_cast<int>(std::clamp<i64>(kRotated / bytes, 2, 64));
  std::vector<Tensor> caches;
  for (int i = 0; i < copies; ++i) caches.push_back(bench.tensor({tokens * width, kBlock, 576}, DType::bf16));
  const Tensor q_c = bench.tensor({tokens, heads, 512}, DType::bf16),
               q_pe = bench.tensor({tokens, heads, 64}, DType::bf16),
               o = bench.tensor({tokens, heads, 512}, DType::bf16);
  Sequences all;
  all.positions = bench.ints({tokens}, [&](i64) { return static_cast<int>(context - 1); });
  all.slots = all.positions;
  all.seq_starts = bench.ints({tokens + 1}, [](i64 i) { return static_cast<int>(i); });
  all.context_lens = bench.ints({tokens}, [&](i64) { return static_cast<int>(context); });
  all.block_tables = bench.ints({tokens, width}, [](i64 i) { return static_cast<int>(i); });
  all.context_starts = all.seq_starts;  // not read
  all.max_context = context;
  all.total_context = tokens * context;
  const double seconds = bench.time(copies, [&](int i) {
    bench.gpu().run(op::AttendLatent{o, q_c, q_pe, {caches[static_cast<std::size_t>(i)], 512}, all, 0.07f});
  });
  report(fmt::format("latent attention heads {} ctx {} M {}", heads, context, tokens), seconds,
         static_cast<double>(bytes), 2.0 * 1088 * static_cast<double>(tokens * heads * context));
  bench.clear();
}

constexpr Dense kDense[] = {
    {"16B wq", 3072, 2048},         {"16B wo", 2048, 2048, true},        {"236B, 671B wq_b", 24576, 1536},
    {"236B wo", 5120, 16384, true}, {"671B wq_a + wkv_a", 2112, 7168},   {"671B wo", 7168, 16384, true},
    {"671B w1", 18432, 7168},       {"671B shared w2", 7168, 2048, true}};
constexpr Dense kHead{"16B head", 102400, 2048, false, DType::f32};

void all(const std::string& part) {
  Bench bench;
  if (part.empty() || part == "products") {
    for (const i64 m : {1, 8, 16, 17, 32, 64, 128, 256})
      for (const Dense& d : kDense) {
        product(bench, kBf16, GemmMode::bf16, m, d);
        product(bench, kFp8Block128, GemmMode::bf16, m, d);
        product(bench, kFp8Block128, GemmMode::fp8, m, d);
      }
    for (const i64 m : {1, 8, 64, 128}) product(bench, kBf16, GemmMode::bf16, m, kHead);
  }
  if (part.empty() || part == "experts")
    for (const Moe& m : kMoes)
      for (const i64 tokens : {1, 8, 32, 64, 128}) {
        if (m.experts == 64) experts(bench, m, kBf16, GemmMode::bf16, tokens);
        experts(bench, m, kFp8Block128, GemmMode::bf16, tokens);
        experts(bench, m, kFp8Block128, GemmMode::fp8, tokens);
      }
  if (part.empty() || part == "attention")
    for (const i64 heads : {16, 128})
      for (const i64 context : {4096, 32768})
        for (const i64 tokens : {1, 8, 64})
          if (tokens * context <= (i64{1} << 19)) attention(bench, heads, context, tokens);
}

}  // namespace
}  // namespace fathom

int main(int argc, char** argv) {
  try {
    fathom::all(argc > 1 ? argv[1] : "");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gpu_kernel_bench: %s\n", e.what());
    return 1;
  }
}
