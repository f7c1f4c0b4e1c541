// Experts: routing, rows sorted by expert, and the experts of few tokens.
#pragma once

#include "kernels/cuda/array.h"
#include "kernels/cuda/device.h"

namespace fathom::cuda {

struct Route {
  float* weights;         // [T, top_k]
  std::int32_t* indices;  // [T, top_k]
  const float* logits;    // [T, E]
  i64 logits_stride;
  const float* bias;  // [E] or null
  i64 tokens;
  int experts, top_k, n_groups, top_k_groups;
  bool sigmoid, normalize;
  float route_scale;
};
void route(Stream& s, const Route& r);
// rows [T * top_k, d], offsets [n_local + 1], places [T, top_k]; x [T, d]; this rank owns experts first .. first + n.
struct Grouping {
  Array rows;
  std::int32_t* offsets;
  std::int32_t* places;
  const std::int32_t* indices;
  i64 choices;
  int top_k, n_local;
  i64 first;
};
void group_by_expert(Stream& s, const Grouping& g, const Array& x);
void combine(Stream& s, const Array& y, const Array& rows, const std::int32_t* places, const float* weights, int top_k);

// ---- the experts' half of a block for few tokens (gate_*.cu, experts_*.cu) ----
// Everything stays on the device: the host knows no choice.
struct MoeArgs {
  int tokens = 0;
  const void* x = nullptr;  // [tokens, dim]: bf16, or float32 with gain
  i64 x_stride = 0;
  const float* gain = nullptr;  // [dim]: x is RMS-normalised first, where input_fits_shared
  float eps = 0;
  Matrix gate;                             // bf16 [E, dim]
  Route route;                             // logits, weights and indices are scratch
  std::int32_t* counter = nullptr;         // 0 between kernels
  Matrix w1, w2, w3;                       // [n_local, inter, dim], [n_local, dim, inter], as w1
  i64 first = 0;                           // of this rank's experts
  Matrix shared_w1, shared_w2, shared_w3;  // [shared, dim], [dim, shared], as w1; out 0: none
  void* normed = nullptr;                  // bf16 [tokens, dim]: where moe_gate leaves the normalised x, with gain
  float* rows = nullptr;          // [tokens * top_k, dim]: moe_down leaves the experts' rows here, if given; else it
                                  // adds everything to y (at most 8 tokens with 64 choices)
  void* hidden = nullptr;         // bf16 [tokens * top_k, inter]
  void* shared_hidden = nullptr;  // bf16 [tokens, shared]
  float* y = nullptr;             // [tokens, dim]: the result is added
  i64 y_stride = 0;
  // The chosen experts of this rank in order, -1 from there on, and the choices (token * top_k + k) of each, from
  // moe_gate or moe_route; not for a token that is routed in place.
  struct Expert {
    std::int32_t expert, first, count, unused;  // its choices are choices[first .. first + count)
  };
  Expert* experts = nullptr;        // [most_chosen]
  std::int32_t* choices = nullptr;  // [tokens * top_k]
  // Where activations are quantised: codes and scales of x, of hidden (null: moe_down makes them), of shared_hidden.
  struct Codes {
    std::uint8_t* data = nullptr;
    float* scale = nullptr;
  };
  bool quantise = false;
  Codes x_codes, hidden_codes, shared_codes;
};
// Blocks route the only token themselves: nothing waits for one that does.
bool routes_in_place(const MoeArgs& p);
int most_chosen(const MoeArgs& p);  // experts that so many tokens can have chosen
// Logits and the shared experts' hidden values; with up to 8 tokens the routing too. Leaves x as normed or x_codes,
// with gain.
void moe_gate_bf16(Stream& s, const MoeArgs& p);
void moe_gate_fp8(Stream& s, const MoeArgs& p);
void moe_route(Stream& s, const MoeArgs& p);  // for more than 8 tokens, after moe_gate
// moe_up takes x as bf16 or x_codes.
void moe_up_bf16(Stream& s, const MoeArgs& p);
void moe_up_fp8(Stream& s, const MoeArgs& p);
void moe_down_bf16(Stream& s, const MoeArgs& p);
void moe_down_fp8(Stream& s, const MoeArgs& p);
// hidden_codes and shared_codes of hidden and shared_hidden.
void moe_quantise(Stream& s, const MoeArgs& p);
// y [T, d] += sum over k of weights[t, k] * rows[t * top_k + k], for experts of this rank.
void combine_add(Stream& s, const MoeArgs& p);

}  // namespace fathom::cuda
