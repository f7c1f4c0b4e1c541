#include "engine/logprobs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fathom {
namespace {

double log_of_sum(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

}  // namespace

float logprob_of(std::span<const float> logits, TokenId token) {
  CHECK(token >= 0 && token < static_cast<i64>(logits.size()), "token {} of {} logits", token, logits.size());
  return static_cast<float>(logits[static_cast<std::size_t>(token)] - log_of_sum(logits));
}

std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, i64 count) {
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto wanted = std::min<std::size_t>(static_cast<std::size_t>(std::max<i64>(count, 0)), order.size());
  const auto likelier = [&](TokenId a, TokenId b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(wanted), order.end(), likelier);
  const double total = log_of_sum(logits);
  std::vector<TokenLogprob> top;
  for (std::size_t i = 0; i < wanted; ++i)
    top.push_back({order[i], static_cast<float>(logits[static_cast<std::size_t>(order[i])] - total)});
  return top;
}

}  // namespace fathom
