// Kernels for many tokens on one GPU: TFLOP/s, and the distance from the readable kernels of the same meaning.
// Usage: cuda_bench
// [check_bf16|check_mixed|check_fp8|check_heads|check_attend|speed_gemm|speed_grouped|speed_attend]...; without
// arguments all of them.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/numeric.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/linear/kernels.h"
#include "kernels/cuda/rows/rows.h"
#include "kernels/cuda/rows/steps.h"

namespace fathom {
namespace {

using namespace cuda;

void check(cudaError_t error) { CHECK(error == cudaSuccess, "CUDA: {}", cudaGetErrorString(error)); }

// Device memory that lives until the end of a case.
class Memory {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    for (void* p : all_) cudaFree(p);
  }
  template <typename T>
  T* take(i64 count) {
    void* p = nullptr;
    check(cudaMalloc(&p, static_cast<std::size_t>(count) * sizeof(T) + 256));
    check(cudaMemset(p, 0xff, static_cast<std::size_t>(count) * sizeof(T) + 256));
    all_.push_back(p);
    return static_cast<T*>(p);
  }
  std::int32_t* integers(const std::vector<std::int32_t>& values) {
    auto* p = take<std::int32_t>(static_cast<i64>(values.size()));
    check(cudaMemcpy(p, values.data(), values.size() * 4, cudaMemcpyHostToDevice));
    return p;
  }

 private:
  std::vector<void*> all_;
};

Array array(void* data, Type type, std::initializer_list<i64> dims) {
  Array a;
  a.data = data;
  a.type = type;
  for (const i64 d : dims) a.dim[a.rank++] = d;
  i64 stride = 1;
  for (int d = a.rank - 1; d >= 0; --d) a.stride[d] = stride, stride *= a.dim[d];
  return a;
}

double milliseconds(cudaStream_t s, const std::function<void()>& work) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  for (int i = 0; i < 2; ++i) work();
  std::vector<float> times;
  for (int round = 0; round < 5; ++round) {
    check(cudaEventRecord(begin, s));
    for (int i = 0; i < 4; ++i) work();
    check(cudaEventRecord(end, s));
    check(cudaEventSynchronize(end));
    float time = 0;
    check(cudaEventElapsedTime(&time, begin, end));
    times.push_back(time / 4);
  }
  check(cudaEventDestroy(begin));
  check(cudaEventDestroy(end));
  std::sort(times.begin(), times.end());
  return times[2];
}

// ||got - want|| / ||want|| over bf16 or float32, and the worst place.
std::string distance(const void* got, const void* want, Type type, i64 rows, i64 width) {
  const std::size_t n = static_cast<std::size_t>(rows * width), bytes = type == Type::f32 ? 4 : 2;
  std::vector<std::uint8_t> a(n * bytes), b(n * bytes);
  check(cudaMemcpy(a.data(), got, n * bytes, cudaMemcpyDeviceToHost));
  check(cudaMemcpy(b.data(), want, n * bytes, cudaMemcpyDeviceToHost));
  const auto value = [&](const std::vector<std::uint8_t>& x, std::size_t i) {
    if (type == Type::f32) return static_cast<double>(reinterpret_cast<const float*>(x.data())[i]);
    return static_cast<double>(bf16_to_float(reinterpret_cast<const bf16_bits*>(x.data())[i]));
  };
  double error = 0, size = 0, worst = 0;
  std::size_t place = 0, bad = 0;
  for (std::size_t i = 0; i < n; ++i) size += value(b, i) * value(b, i);
  const double usual = std::sqrt(size / static_cast<double>(n));
  for (std::size_t i = 0; i < n; ++i) {
    const double x = value(a, i), y = value(b, i), e = std::fabs(x - y);
    error += e * e;
    if (!(e <= 0.02 * std::fabs(y) + 0.02 * usual)) ++bad;
    if (!(e <= worst)) worst = e, place = i;
  }
  const auto w = static_cast<std::size_t>(width);
  return fmt::format("distance {:.2e} ({} of {} off; worst {:.3g} instead of {:.3g} at row {} column {})",
                     std::sqrt(error / size), bad, n, value(a, place), value(b, place), place / w, place % w);
}

enum class Form { bf16, mixed, fp8 };

const char* name_of(Form form) {
  return form == Form::bf16 ? "bf16" : form == Form::mixed ? "fp8 x bf16" : "fp8 x fp8";
}

struct GemmCase {
  i64 rows, out, in;
  std::vector<std::int32_t> counts = {};  // rows of each expert
};

void gemm(const Device& device, Form form, const GemmCase& c, Type y_type, bool compare) {
  Memory memory;
  Stream s{nullptr, device};
  const i64 groups = c.counts.empty() ? 1 : static_cast<i64>(c.counts.size());
  Product p;
  Matrix& matrix = p.part[0].w;
  matrix.count = groups, matrix.out = c.out, matrix.in = c.in;
  matrix.type = form == Form::bf16 ? Type::bf16 : Type::e4m3;
  Array w = array(memory.take<std::uint16_t>(groups * c.out * c.in / (form == Form::bf16 ? 1 : 2)), matrix.type,
                  {groups * c.out, c.in});
  fill_random(s, w, 1);
  matrix.data = w.data;
  if (form != Form::bf16) {
    const i64 scales = groups * ((c.out + 127) / 128) * ((c.in + 127) / 128);
    auto* scale = memory.take<float>(scales);
    fill_random(s, array(scale, Type::f32, {1, scales}), 2);
    matrix.scale = scale;
  }
  Array x = array(memory.take<std::uint16_t>(c.rows * c.in), Type::bf16, {c.rows, c.in});
  fill_random(s, x, 3);
  p.x = x.data, p.x_stride = c.in, p.rows = c.rows;
  const void* plain_x = p.x;  // for the readable kernel
  const float* plain_scale = nullptr;
  if (form == Form::fp8) {
    auto *codes = memory.take<std::uint8_t>(c.rows * c.in), *plain = memory.take<std::uint8_t>(c.rows * c.in);
    const i64 stride = (c.rows + 3) / 4 * 4;
    auto *turned = memory.take<float>(stride * c.in / 128), *scale = memory.take<float>(c.rows * c.in / 128);
    quantize_by_column(s, codes, turned, stride, x, false);
    quantize(s, plain, scale, x, false);
    p.x = codes, p.x_type = Type::e4m3, p.x_scale = turned, p.x_scale_stride = stride;
    plain_x = plain, plain_scale = scale;
  }
  if (!c.counts.empty()) {
    std::vector<std::int32_t> offsets{0};
    for (const int count : c.counts) offsets.push_back(offsets.back() + count);
    p.offsets = memory.integers(offsets);
  }
  auto *y = memory.take<float>(c.rows * c.out), *want = memory.take<float>(c.rows * c.out);
  p.part[0].y = y, p.part[0].y_type = y_type, p.part[0].y_stride = c.out;
  std::string text;
  if (compare) {
    Product twin = p;
    twin.x = plain_x, twin.x_scale = plain_scale, twin.x_scale_stride = 0;
    twin.part[0].y = want;
    simple_product(s, twin, {});
    gemm_product(s, p, {});
    check(cudaDeviceSynchronize());
    text = distance(y, want, y_type, c.rows, c.out);
  } else {
    const double ms = milliseconds(s, [&] { gemm_product(s, p, {}); });
    text = fmt::format("{:8.1f} us {:7.1f} TFLOP/s {:6.0f} GB/s of weights", ms * 1e3,
                       2e-9 * static_cast<double>(c.rows * c.out * c.in) / ms,
                       1e-6 * static_cast<double>(groups * c.out * c.in * (form == Form::bf16 ? 2 : 1)) / ms);
  }
  fmt::print("gemm   {:10} {:3} x {:5} rows {:5} out {:5} in {} {}\n", name_of(form), groups, c.rows, c.out, c.in,
             y_type == Type::f32 ? "f32 " : "bf16", text);
  std::fflush(stdout);
}

// Heads: per-head products, and the expansion of latents to keys (transposed) and values.
void heads(const Device& device, i64 tokens, i64 heads, bool transposed) {
  Memory memory;
  Stream s{nullptr, device};
  Array x = array(memory.take<std::uint16_t>(tokens * 576), Type::bf16, {tokens, 1, 512});
  x.stride[0] = 576;
  fill_random(s, array(x.data, Type::bf16, {tokens, 576}), 4);
  Array w = array(memory.take<std::uint16_t>(heads * 128 * 512), Type::bf16, {heads, 128, 512});
  fill_random(s, w, 5);
  std::vector<bf16_bits> host(static_cast<std::size_t>(heads * 128 * 512)), turned(host.size());
  check(cudaMemcpy(host.data(), w.data, host.size() * 2, cudaMemcpyDeviceToHost));
  for (i64 h = 0; h < heads; ++h)
    for (i64 o = 0; o < 128; ++o)
      for (i64 i = 0; i < 512; ++i)
        turned[static_cast<std::size_t>((h * 512 + i) * 128 + o)] =
            host[static_cast<std::size_t>((h * 128 + o) * 512 + i)];
  auto* other = memory.take<std::uint16_t>(heads * 128 * 512);
  check(cudaMemcpy(other, turned.data(), turned.size() * 2, cudaMemcpyHostToDevice));
  Product p;
  p.x = x.data, p.x_stride = 576, p.rows = tokens;
  p.part[0].w = {transposed ? other : w.data, nullptr, Type::bf16, false, heads, 128, 512};
  p.w_transposed = transposed;
  p.heads = static_cast<int>(heads), p.w_head = 128 * 512, p.y_head = 256;
  Array y = array(memory.take<std::uint16_t>(tokens * heads * 256), Type::bf16, {tokens, heads, 256}), want = y;
  want.data = memory.take<std::uint16_t>(tokens * heads * 256);
  p.part[0].y = y.data, p.part[0].y_stride = heads * 256;
  Product twin = p;
  twin.part[0].w.data = w.data, twin.part[0].y = want.data, twin.w_transposed = false;
  check(cudaMemset(y.data, 0, static_cast<std::size_t>(tokens * heads * 512)));
  check(cudaMemset(want.data, 0, static_cast<std::size_t>(tokens * heads * 512)));
  simple_product(s, twin, {});
  gemm_product(s, p, {});
  check(cudaDeviceSynchronize());
  const std::string text = distance(y.data, want.data, Type::bf16, tokens, heads * 256);
  const double ms = milliseconds(s, [&] { gemm_product(s, p, {}); });
  fmt::print("expand {} heads {} tokens {}: {:.1f} us {:.1f} TFLOP/s {}\n", transposed ? "keys" : "values", heads,
             tokens, ms * 1e3, 2e-9 * static_cast<double>(tokens * heads * 128 * 512) / ms, text);
}

void attend(const Device& device, const std::vector<std::pair<int, int>>& sequences, i64 heads, bool compare) {
  Memory memory;
  Stream s{nullptr, device};
  std::vector<std::int32_t> positions, starts{0}, lens, context{0};
  double work = 0;
  for (const auto& [cached, fresh] : sequences) {
    for (int i = 0; i < fresh; ++i) positions.push_back(cached + i), work += cached + i + 1;
    starts.push_back(static_cast<std::int32_t>(positions.size()));
    lens.push_back(cached + fresh);
    context.push_back(context.back() + cached + fresh);
  }
  positions.push_back(0);  // a token of no sequence
  const auto t = static_cast<i64>(positions.size()), total = static_cast<i64>(context.back());
  Sequences seqs{};
  seqs.positions = memory.integers(positions), seqs.seq_starts = memory.integers(starts);
  seqs.context_lens = memory.integers(lens), seqs.context_starts = memory.integers(context);
  seqs.count = static_cast<int>(lens.size()), seqs.tokens = t, seqs.total_context = total;
  const Array q = array(memory.take<std::uint16_t>(t * heads * 192), Type::bf16, {t, heads, 192}),
              kv = array(memory.take<std::uint16_t>(total * heads * 256), Type::bf16, {total, heads, 256});
  Array k_pe = array(memory.take<std::uint16_t>(total * 576), Type::bf16, {total, 576});
  fill_random(s, q, 6), fill_random(s, kv, 7), fill_random(s, k_pe, 8);
  k_pe.dim[1] = 64;
  k_pe.data = static_cast<std::uint16_t*>(k_pe.data) + 512;
  const Array o = array(memory.take<std::uint16_t>(t * heads * 128), Type::bf16, {t, heads, 128});
  Array want = o;
  want.data = memory.take<std::uint16_t>(t * heads * 128);
  const float scale = 500;  // random values are small: weights of many sizes
  CHECK(attend_prompt_fits(o, q, {kv, k_pe}), "attention does not fit");
  std::string text;
  if (compare) {
    attend_expanded_simple(s, want, q, {kv, k_pe}, seqs, scale);
    attend_prompt(s, o, q, {kv, k_pe}, seqs, scale);
    check(cudaDeviceSynchronize());
    text = distance(o.data, want.data, Type::bf16, t, heads * 128);
  } else {
    const double ms = milliseconds(s, [&] { attend_prompt(s, o, q, {kv, k_pe}, seqs, scale); });
    text = fmt::format("{:8.1f} us {:7.1f} TFLOP/s", ms * 1e3, 2e-9 * 320 * work * static_cast<double>(heads) / ms);
  }
  fmt::print("attend {} sequences {} tokens {} context {} heads {}\n", sequences.size(), t, total, heads, text);
  std::fflush(stdout);
}

std::vector<std::int32_t> routed(i64 rows, int experts) {
  std::mt19937 random(1);
  std::vector<std::int32_t> counts(static_cast<std::size_t>(experts));
  for (i64 i = 0; i < rows; ++i) ++counts[random() % static_cast<unsigned>(experts)];
  return counts;
}

void check_gemm(const Device& device, Form form) {
  for (const i64 rows : {1, 65, 129, 300}) gemm(device, form, {rows, 400, 640}, Type::f32, true);
  gemm(device, form, {257, 2112, 1536}, Type::bf16, true);
  gemm(device, form, {128, 130, 128}, Type::bf16, true);
  if (form != Form::fp8) gemm(device, form, {77, 200, 720}, Type::bf16, true);
  gemm(device, form, {611, 144, 256, {129, 128, 0, 63, 1, 0, 290}}, Type::bf16, true);
  gemm(device, form, {4096, 1408, 2048, routed(4096, 8)}, Type::f32, true);
}

void check_attend(const Device& device) {
  attend(device, {{0, 1}}, 1, true);
  attend(device, {{0, 128}}, 1, true);
  attend(device, {{0, 300}}, 2, true);
  attend(device, {{0, 63}, {63, 1}, {64, 130}, {0, 65}, {500, 257}}, 3, true);
}

void run(const std::string& what) {
  const Device device = find_device(0);
  CHECK(device.sm90a, "this device or build has no kernels for Hopper");
  const auto wanted = [&](const char* part) { return what.empty() || what.find(part) != std::string::npos; };
  if (wanted("check_bf16")) check_gemm(device, Form::bf16);
  if (wanted("check_mixed")) check_gemm(device, Form::mixed);
  if (wanted("check_fp8")) check_gemm(device, Form::fp8);
  if (wanted("check_heads"))
    for (const bool transposed : {false, true}) heads(device, 333, 5, transposed);
  if (wanted("check_attend")) check_attend(device);
  const std::pair<i64, i64> shapes[] = {{2112, 7168},  {24576, 1536}, {32768, 512},
                                        {7168, 16384}, {4096, 7168},  {7168, 2048}};
  if (what == "profile") {  // one of each for a profiler
    for (const Form form : {Form::bf16, Form::mixed, Form::fp8})
      gemm(device, form, {4096, 4096, 7168}, Type::bf16, false);
    gemm(device, Form::bf16, {768, 1408, 2048, routed(768, 64)}, Type::bf16, false);
  }
  if (wanted("speed_gemm"))
    for (const Form form : {Form::bf16, Form::mixed, Form::fp8}) {
      for (const auto& [out, in] : shapes) gemm(device, form, {4096, out, in}, Type::bf16, false);
      for (const i64 rows : {128, 512}) gemm(device, form, {rows, 7168, 2048}, Type::bf16, false);
    }
  if (wanted("speed_grouped"))
    for (const Form form : {Form::bf16, Form::mixed, Form::fp8}) {
      for (const auto& [out, in] : {std::pair<i64, i64>{4096, 7168}, {7168, 2048}})
        gemm(device, form, {32768, out, in, {8192, 8192, 8192, 8192}}, Type::bf16, false);
      gemm(device, form, {24576, 1408, 2048, routed(24576, 64)}, Type::bf16, false);
      gemm(device, form, {768, 1408, 2048, routed(768, 64)}, Type::bf16, false);
      if (form != Form::bf16) gemm(device, form, {32768, 2048, 7168, routed(32768, 256)}, Type::bf16, false);
    }
  if (wanted("speed_attend")) {
    for (const bool transposed : {false, true}) heads(device, 4096, 16, transposed);
    for (const i64 heads : {16, 128})
      for (const auto& [cached, fresh] : {std::pair<int, int>{0, 4096}, {0, 1024}, {4096, 512}})
        attend(device, {{cached, fresh}}, heads, false);
  }
}

}  // namespace
}  // namespace fathom

int main(int argc, char** argv) {
  std::string what;
  for (int i = 1; i < argc; ++i) what += argv[i];
  try {
    fathom::run(what);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
