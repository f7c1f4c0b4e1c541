// Logarithms of probabilities, on the host.
#pragma once

#include <span>
#include <vector>

#include "engine/request.h"

namespace fathom {

// log(softmax(logits))[token], summed in double.
float logprob_of(std::span<const float> logits, TokenId token);

// The `count` likeliest tokens, likeliest first, of equals the smaller id first.
std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, i64 count);

}  // namespace fathom
