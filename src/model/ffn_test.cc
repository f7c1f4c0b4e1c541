// MLP and MoE against the reference's formulas (model.py, classes Gate, Expert and MoE) in double precision.
#include "model/ffn.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "support/module.h"

namespace fathom {
namespace {

using namespace test;

constexpr i64 kDim = 40, kInter = 24, kExperts = 12;

struct Rule {
  i64 groups, limited;
  bool sigmoid, bias, normalize;
};

ModelArgs small_args(const Rule& rule) {
  ModelArgs args;
  args.dtype = "bf16";
  args.dim = kDim;
  args.n_layers = 1;
  args.n_dense_layers = 0;
  args.inter_dim = args.moe_inter_dim = kInter;
  args.vocab_size = 16;
  args.n_heads = 2;
  args.kv_lora_rank = args.qk_nope_head_dim = args.v_head_dim = 16;
  args.qk_rope_head_dim = 8;
  args.n_routed_experts = kExperts;
  args.n_shared_experts = 2;
  args.n_activated_experts = 3;
  args.n_expert_groups = rule.groups;
  args.n_limited_groups = rule.limited;
  args.score_func = rule.sigmoid ? "sigmoid" : "softmax";
  args.gate_bias = rule.bias;
  args.norm_topk_prob = rule.normalize;
  args.route_scale = 2.5;
  return args;
}

// Places of the n largest.
std::vector<std::size_t> largest(const std::vector<double>& of, i64 n) {
  std::vector<std::size_t> order(of.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return of[a] > of[b]; });
  order.resize(static_cast<std::size_t>(n));
  return order;
}

class Reference {
 public:
  Reference(const ModelArgs& args, const MadeWeights& weights) : args_(args), weights_(weights) {}

  // What the layer adds to each row of x.
  Matrix operator()(const Matrix& x) const {
    Matrix y = expert(x, "layers.0.ffn.shared_experts.");
    const Matrix logits = times(x, weights_.numbers("layers.0.ffn.gate.weight"));
    for (std::size_t t = 0; t < x.size(); ++t)
      for (const auto& [e, weight] : gate(logits[t])) {
        const Matrix one = expert({x[t]}, fmt::format("layers.0.ffn.experts.{}.", e));
        for (std::size_t i = 0; i < kDim; ++i) y[t][i] += weight * one[0][i];
      }
    return y;
  }

  Matrix expert(const Matrix& x, const std::string& name) const {
    Matrix a = times(x, weights_.numbers(name + "w1.weight"));
    const Matrix b = times(x, weights_.numbers(name + "w3.weight"));
    for (std::size_t t = 0; t < a.size(); ++t)
      for (std::size_t i = 0; i < a[t].size(); ++i) a[t][i] = silu(a[t][i]) * b[t][i];
    return times(a, weights_.numbers(name + "w2.weight"));
  }

 private:
  // The chosen experts and their weights.
  std::vector<std::pair<std::size_t, double>> gate(const std::vector<double>& logits) const {
    const bool sigmoid = args_.score_func == "sigmoid";
    std::vector<double> scores;
    for (const double x : logits) scores.push_back(sigmoid ? 1 / (1 + std::exp(-x)) : std::exp(x));
    const double sum = sigmoid ? 1 : std::accumulate(scores.begin(), scores.end(), 0.0);
    for (double& score : scores) score /= sum;
    std::vector<double> by = scores;
    if (args_.gate_bias) {
      const std::vector<double> bias = weights_.numbers("layers.0.ffn.gate.bias");
      for (std::size_t e = 0; e < by.size(); ++e) by[e] += bias[e];
    }
    leave_groups_out(by);
    const std::vector<std::size_t> chosen = largest(by, args_.n_activated_experts);
    double total = 0;
    for (const std::size_t e : chosen) total += scores[e];
    std::vector<std::pair<std::size_t, double>> result;
    for (const std::size_t e : chosen)
      result.emplace_back(e, scores[e] / (args_.norm_topk_prob ? total : 1) * args_.route_scale);
    return result;
  }

  // A group counts by its best expert, with a bias by the sum of its two best.
  void leave_groups_out(std::vector<double>& by) const {
    const auto size = kExperts / args_.n_expert_groups;
    std::vector<double> groups;
    for (i64 g = 0; g < args_.n_expert_groups; ++g) {
      const std::vector<double> part(by.begin() + g * size, by.begin() + (g + 1) * size);
      double score = 0;
      for (const std::size_t e : largest(part, args_.gate_bias ? 2 : 1)) score += part[e];
      groups.push_back(score);
    }
    std::vector<double> kept(by.size(), -std::numeric_limits<double>::infinity());
    for (const std::size_t g : largest(groups, args_.n_limited_groups))
      for (auto e = g * static_cast<std::size_t>(size); e < (g + 1) * static_cast<std::size_t>(size); ++e)
        kept[e] = by[e];
    by = kept;
  }

  const ModelArgs& args_;
  const MadeWeights& weights_;
};

// h after the module and its next norm, for 9 random rows.
template <typename Module>
void check(Surroundings& around, const Module& module, const std::function<Matrix(const Matrix&)>& reference) {
  Random random(3);
  HostTensor h({9, kDim}, DType::f32), gain({kDim}, DType::f32), next({kDim}, DType::f32);
  h.normal(random, 2), gain.normal(random), next.normal(random);
  Matrix expected = rows_of(values(*h), kDim);
  const Matrix added = reference(rms_norm(expected, values(*gain), 1e-3));
  for (std::size_t t = 0; t < expected.size(); ++t)
    for (std::size_t i = 0; i < kDim; ++i) expected[t][i] += added[t][i];
  const Normed after = module(around.context(), *h, Normed(*h, Norm{*gain, 1e-3f}), Norm{*next, 1e-3f});
  h.expect_guards_intact();
  EXPECT_LT(largest_error(values(*h), expected), 1e-5);
  EXPECT_LT(largest_error(values(ops::apply(around.context(), after)), rms_norm(expected, values(*next), 1e-3)), 1e-5);
}

void check_moe(Backend& backend, const Rule& rule, bool fused) {
  const ModelArgs args = small_args(rule);
  const MadeWeights weights(args);
  Surroundings around(backend, args, weights, {.compute = DType::f32, .fused = fused});
  const MoE moe(around.params().sub("layers").sub(0).sub("ffn"));
  around.load();
  check(around, moe, Reference(args, weights));
}

TEST(MoE, EqualsTheReferenceByEveryRule) {
  for_each_backend([](Backend& backend) {
    for (const auto& [groups, limited] : {std::pair<i64, i64>{1, 1}, {4, 2}, {3, 3}})
      for (const bool sigmoid : {false, true})
        for (const bool bias : {false, true})
          for (const bool normalize : {false, true}) {
            SCOPED_TRACE(fmt::format("groups {} of {}, sigmoid {}, bias {}, normalize {}", limited, groups, sigmoid,
                                     bias, normalize));
            check_moe(backend, {groups, limited, sigmoid, bias, normalize}, true);
          }
  });
}

TEST(MoE, OperationByOperationIsTheSame) {
  for_each_backend([](Backend& backend) { check_moe(backend, {4, 2, true, true, true}, false); });
}

TEST(MLP, EqualsTheReference) {
  for_each_backend([](Backend& backend) {
    const ModelArgs args = small_args({1, 1, false, false, false});
    const MadeWeights weights(args);
    Surroundings around(backend, args, weights, {.compute = DType::f32});
    const MLP mlp(around.params().sub("layers").sub(0).sub("ffn").sub("shared_experts"), kDim, 2 * kInter);
    around.load();
    check(around, mlp,
          [&](const Matrix& x) { return Reference(args, weights).expert(x, "layers.0.ffn.shared_experts."); });
  });
}

}  // namespace
}  // namespace fathom
