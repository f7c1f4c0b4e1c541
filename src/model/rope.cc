#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace fathom {
namespace {

// The (fractional) dimension that turns `rotations` times over the original context (YaRN, arXiv 2309.00071,
// section 3.2).
double correction_dim(double rotations, const ModelArgs& args) {
  const auto length = static_cast<double>(args.original_seq_len);
  return static_cast<double>(args.qk_rope_head_dim) * std::log(length / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(args.rope_theta));
}

// Frequencies in float32, step by step as the reference computes them.
std::vector<float> frequencies(const ModelArgs& args) {
  const i64 dim = args.qk_rope_head_dim;
  const double low = std::max(std::floor(correction_dim(static_cast<double>(args.beta_fast), args)), 0.0);
  double high =
      std::min(std::ceil(correction_dim(static_cast<double>(args.beta_slow), args)), static_cast<double>(dim - 1));
  if (low == high) high += 0.001;
  std::vector<float> freqs(static_cast<std::size_t>(dim / 2));
  for (i64 i = 0; i < dim / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    float freq = 1.0f / static_cast<float>(std::pow(args.rope_theta, static_cast<double>(exponent)));
    if (args.yarn) {
      const float ramp = static_cast<float>(static_cast<double>(i) - low) / static_cast<float>(high - low);
      const float smooth = 1 - std::clamp(ramp, 0.0f, 1.0f);
      freq = freq / static_cast<float>(args.rope_factor) * (1 - smooth) + freq * smooth;
    }
    freqs[static_cast<std::size_t>(i)] = freq;
  }
  return freqs;
}

}  // namespace

std::vector<float> precompute_freqs_cis(const ModelArgs& args) {
  const std::vector<float> freqs = frequencies(args);
  const auto scale = static_cast<float>(args.rope_mscale);
  std::vector<float> table;
  table.reserve(static_cast<std::size_t>(args.max_seq_len) * freqs.size() * 2);
  for (i64 position = 0; position < args.max_seq_len; ++position)
    for (const float freq : freqs) {
      const double angle = static_cast<float>(position) * freq;  // rounded to float32, as in the reference
      table.push_back(static_cast<float>(std::cos(angle)) * scale);
      table.push_back(static_cast<float>(std::sin(angle)) * scale);
    }
  return table;
}

}  // namespace fathom
