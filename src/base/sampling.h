// SamplingParams: how tokens are drawn from logits. One plain struct from the request to the kernels, which is why it
// stands here: a new parameter is a field, its line in sampling_refusal, and its use in each backend's `sample`.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

namespace fathom {

struct SamplingParams {
  float temperature = 1.0f;  // 0 or less: the largest logit, the first of equals
  float top_p = 1.0f;        // in (0, 1]; 1: no limit
  float min_p = 0.0f;        // in [0, 1]; 0: no limit
  float repetition_penalty =
      1.0f;                 // above 0; 1: none. Logits of seen tokens are divided (positive) or multiplied by it
  std::int32_t top_k = 0;   // 0: no limit
  std::int64_t seed = 965;  // the same seed gives the same tokens, whatever else runs
  bool operator==(const SamplingParams&) const = default;
};

// What one row of a pass is drawn with. Arrays of it go to the device as they are.
struct RowSampling : SamplingParams {
  std::int64_t step = 0;  // how many tokens the sequence has drawn before; the random stream's counter
  bool operator==(const RowSampling&) const = default;
};
static_assert(std::is_trivially_copyable_v<RowSampling>);

// Why these parameters cannot be used; empty when they can.
std::string sampling_refusal(const SamplingParams& sampling);

}  // namespace fathom
