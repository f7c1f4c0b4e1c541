#include "base/sampling.h"

#include <fmt/format.h>

namespace fathom {

// Written so that NaN is refused too.
std::string sampling_refusal(const SamplingParams& sampling) {
  if (!(sampling.temperature < 1e6f)) return fmt::format("temperature is {}", sampling.temperature);
  if (sampling.top_k < 0) return fmt::format("top_k is {}; it must be 0 (no limit) or more", sampling.top_k);
  if (!(sampling.top_p > 0 && sampling.top_p <= 1))
    return fmt::format("top_p is {}; it must be above 0 and at most 1", sampling.top_p);
  if (!(sampling.min_p >= 0 && sampling.min_p <= 1))
    return fmt::format("min_p is {}; it must be between 0 and 1", sampling.min_p);
  if (!(sampling.repetition_penalty > 0 && sampling.repetition_penalty < 1e6f))
    return fmt::format("repetition_penalty is {}; it must be above 0", sampling.repetition_penalty);
  return {};
}

}  // namespace fathom
