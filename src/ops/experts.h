// Mixture of experts. See rows.h for the conventions.
#pragma once

#include "ops/products.h"

namespace fathom {

// Tokens sorted by the expert they go to. R = T * top_k rows are laid out for every token and choice; rows for experts
// of other ranks come last and belong to no expert here.
struct Routed {
  Tensor rows;     // [R, dim] inputs, sorted by expert
  Tensor offsets;  // [n_local + 1] int32: rows offsets[e] .. offsets[e + 1] go to local expert e
  Tensor places;   // [T, top_k] int32: the row of each choice; -1 where the expert lives elsewhere
};

// Routing rule of the gate (reference model.py, Gate.forward).
struct RouteArgs {
  i64 top_k = 1;
  i64 n_groups = 1;        // experts come in this many equal groups
  i64 top_k_groups = 1;    // only experts of this many best groups can be chosen
  bool sigmoid = false;    // else softmax over all experts
  bool normalize = false;  // divide the chosen weights by their sum (kept finite when the sum is 0)
  float route_scale = 1;   // multiplies the weights in any case
  // Choice is by score + bias, weights are scores without it. A group's score is the sum of its two best with a bias,
  // its maximum without.
};

// Chooses experts and their weights for each token. Scores are float32 (as in Hugging Face; the reference has bf16).
struct Gate {
  Weight weight;  // [E, dim]
  Tensor bias;    // float32 [E], or undefined: shifts the choice, not the weights
  RouteArgs route;
};

// w2(silu(w1(x)) * w3(x)), for one matrix each or for a stack of them.
struct SwiGlu {
  Weight w1, w2, w3;  // [inter, dim], [dim, inter], [inter, dim]
};

// The experts of a layer that live on this rank.
struct ExpertsLayer {
  Gate gate;
  SwiGlu experts;  // stacks of n_local, the first of which is expert `first`
  i64 first = 0;
  SwiGlu shared;  // this rank's part of the experts that every token takes

  i64 n_local() const { return experts.w1.shape()[0]; }
};

namespace op {

// weights f32 [T, k], indices int32 [T, k] from gate logits f32 [T, E]; bias f32 [E] or undefined.
struct Route {
  Tensor weights, indices, logits, bias;
  RouteArgs args;
  static constexpr const char* kName = "route";
  void each(auto&& f) { f(weights), f(indices), f(logits), f(bias); }
};

// Fills routed (rows, offsets, places) from x [T, d] and indices [T, k]; this rank owns experts first .. first + n.
// Within an expert, rows keep the order of the tokens.
struct GroupByExpert {
  Routed routed;
  Tensor x, indices;
  i64 first = 0;
  static constexpr const char* kName = "group_by_expert";
  void each(auto&& f) { f(routed.rows), f(routed.offsets), f(routed.places), f(x), f(indices); }
};

// y [T, d] = sum over k of weights[t, k] * rows[places[t, k]], skipping places of -1; y and rows act.
struct Combine {
  Tensor y, rows;
  Routed routed;
  Tensor weights;
  static constexpr const char* kName = "combine";
  void each(auto&& f) { f(y), f(rows), f(routed.places), f(weights); }
};

// Optional: y [R, inter] = silu(x w1^T) * (x w3^T), rows grouped as in GroupedLinear; rows of no group may be anything.
struct GroupedSwiGlu {
  Tensor y, x;
  Weight w1, w3;
  Tensor offsets;
  GemmMode mode = GemmMode::bf16;
  static constexpr const char* kName = "grouped_swiglu";
  void each(auto&& f) const { f(y), f(x), f(w1.data), f(w3.data); }
};

// Optional: y [T, dim] float32 = this rank's routed and shared experts of the norm of h [T, dim], or y += them; y may
// be h then.
struct Experts {
  Tensor y, h;
  Norm norm;
  const ExpertsLayer& layer;
  bool add = false;
  GemmMode mode = GemmMode::bf16;
  static constexpr const char* kName = "experts";
  void each(auto&& f) const { f(y), f(h), f(layer.experts.w1.data); }
};

}  // namespace op

namespace ops {

struct Routing {
  Tensor weights;  // f32 [T, top_k]
  Tensor indices;  // int32 [T, top_k]
};
Routing route(Context& ctx, const Normed& x, const Gate& gate);
Routed group_by_expert(Context& ctx, const Tensor& x, const Tensor& indices, i64 first, i64 n_local);
// Weighted sum of the experts' rows in float32: [T, d].
Tensor combine(Context& ctx, const Tensor& rows, const Routed& routed, const Tensor& weights);
// silu(x w1^T) * (x w3^T) for rows x of routed experts: [R, inter].
Tensor grouped_swiglu(Context& ctx, const Tensor& x, const Weight& w1, const Weight& w3, const Tensor& offsets);

// h float32 [T, dim] += the sum over the ranks of routed and shared experts of x; gives the next norm of h.
Normed experts_add_norm(Context& ctx, const Tensor& h, const Normed& x, const ExpertsLayer& layer, const Norm& next);

}  // namespace ops
}  // namespace fathom
