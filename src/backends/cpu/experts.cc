// Routing of tokens to experts, and the way there and back.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "backends/cpu/act.h"
#include "backends/cpu/cpu_backend.h"

namespace fathom {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

// Scores of one token, in float32.
void softmax(std::span<float> scores) {
  float top = kMasked, sum = 0;
  for (const float value : scores) top = std::max(top, value);
  for (float& value : scores) sum += value = std::exp(value - top);
  for (float& value : scores) value /= sum;
}

void sigmoid(std::span<float> scores) {
  for (float& value : scores) value = 1.0f / (1.0f + std::exp(-value));
}

// The largest value that is not taken, the first of equals. NaN counts as -infinity, so the answer is always an index.
std::size_t take_best(std::span<const float> values, std::vector<bool>& taken) {
  std::size_t best = values.size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (taken[i]) continue;
    if (best == values.size() || values[i] > values[best] || (std::isnan(values[best]) && !std::isnan(values[i])))
      best = i;
  }
  CHECK(best < values.size(), "{} experts or groups are too few for the asked choice", values.size());
  taken[best] = true;
  return best;
}

// Sum of the two best with a bias, the best without.
float group_score(std::span<const float> scores, bool biased) {
  float first = kMasked, second = kMasked;
  for (const float value : scores) {
    if (value > first) {
      second = first;
      first = value;
    } else if (value > second) {
      second = value;
    }
  }
  return biased && scores.size() > 1 ? first + second : first;
}

// Masks all experts but those of the best groups.
void limit_groups(std::span<float> choice, const RouteArgs& args, bool biased) {
  const auto groups = static_cast<std::size_t>(args.n_groups);
  const std::size_t size = choice.size() / groups;
  std::vector<float> scores(groups);
  for (std::size_t g = 0; g < groups; ++g) scores[g] = group_score(choice.subspan(g * size, size), biased);
  std::vector<bool> kept(groups);
  for (i64 k = 0; k < args.top_k_groups; ++k) take_best(scores, kept);
  for (std::size_t g = 0; g < groups; ++g)
    if (!kept[g]) std::fill_n(choice.begin() + static_cast<std::ptrdiff_t>(g * size), size, kMasked);
}

struct RouteRow {
  const float* logits;
  float* weights;
  std::int32_t* indices;
};

void route_row(const RouteRow& row, const float* bias, std::size_t experts, const RouteArgs& args) {
  std::vector<float> scores(row.logits, row.logits + experts);
  if (args.sigmoid)
    sigmoid(scores);
  else
    softmax(scores);
  std::vector<float> choice = scores;
  for (std::size_t e = 0; bias != nullptr && e < experts; ++e) choice[e] += bias[e];
  if (args.n_groups > 1) limit_groups(choice, args, bias != nullptr);
  std::vector<bool> taken(experts);
  float sum = 0;
  for (i64 k = 0; k < args.top_k; ++k) {
    const std::size_t best = take_best(choice, taken);
    row.indices[k] = static_cast<std::int32_t>(best);
    sum += row.weights[k] = scores[best];
  }
  const float divisor = args.normalize && sum != 0 ? sum : 1.0f;  // all chosen scores 0: weights 0, not 0 / 0
  for (i64 k = 0; k < args.top_k; ++k) row.weights[k] = row.weights[k] / divisor * args.route_scale;
}

}  // namespace

void CpuBackend::run(const op::Route& op) {
  const RouteArgs& args = op.args;
  const Rows in(op.logits), out(op.weights), chosen(op.indices);
  const float* added = op.bias.defined() ? op.bias.as<float>() : nullptr;
  parallel(in.count, in.width * (args.top_k + 8), [&](i64 begin, i64 end, int) {
    for (i64 t = begin; t < end; ++t)
      route_row({static_cast<const float*>(in.row(t)), static_cast<float*>(out.row(t)),
                 static_cast<std::int32_t*>(chosen.row(t))},
                added, static_cast<std::size_t>(in.width), args);
  });
}

void CpuBackend::run(const op::GroupByExpert& op) {
  const Routed& routed = op.routed;
  const Tensor& indices = op.indices;
  const i64 local = routed.offsets.dim(0) - 1, choices = indices.numel(), top_k = indices.dim(1);
  const auto* index = indices.as<std::int32_t>();
  auto* offsets = routed.offsets.as<std::int32_t>();
  auto* places = routed.places.as<std::int32_t>();
  const auto is_local = [&](i64 i) { return index[i] >= op.first && index[i] < op.first + local; };
  std::vector<std::int32_t> next(static_cast<std::size_t>(local + 1), 0);
  for (i64 i = 0; i < choices; ++i)
    if (is_local(i)) ++next[static_cast<std::size_t>(index[i] - op.first + 1)];
  for (std::size_t e = 1; e < next.size(); ++e) next[e] += next[e - 1];
  std::copy(next.begin(), next.end(), offsets);
  for (i64 i = 0; i < choices; ++i)
    places[i] = is_local(i) ? next[static_cast<std::size_t>(index[i] - op.first)]++ : -1;
  const Rows to(routed.rows), from(op.x);
  const auto bytes = static_cast<std::size_t>(from.width * size_of(from.dtype));
  parallel(choices, from.width / 8, [&](i64 begin, i64 end, int) {
    for (i64 i = begin; i < end; ++i)
      if (places[i] >= 0) std::memcpy(to.row(places[i]), from.row(i / top_k), bytes);
  });
  for (i64 r = offsets[local]; r < to.count; ++r) std::memset(to.row(r), 0, bytes);
}

void CpuBackend::run(const op::Combine& op) {
  const Rows out(op.y), in(op.rows);
  const i64 top_k = op.routed.places.dim(1);
  const auto* places = op.routed.places.as<std::int32_t>();
  const auto* weight = op.weights.as<float>();
  parallel(out.count, out.width * top_k / 4, [&](i64 begin, i64 end, int worker) {
    float *sum = scratch(worker, 2 * out.width), *row = sum + out.width;
    for (i64 t = begin; t < end; ++t) {
      std::fill(sum, sum + out.width, 0.0f);
      for (i64 k = t * top_k; k < (t + 1) * top_k; ++k) {
        if (places[k] < 0) continue;
        kernels_.widen(row, in.row(places[k]), element_of(in.dtype), out.width);
        kernels_.add_scaled(sum, row, weight[k], out.width);
      }
      kernels_.narrow(out.row(t), element_of(out.dtype), sum, out.width);
    }
  });
}

}  // namespace fathom
