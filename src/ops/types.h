// Plain argument structs that the model and the backends share.
#pragma once

#include "base/sampling.h"
#include "quant/weight.h"
#include "tensor/tensor.h"

namespace fathom {

// How products with FP8 weights are computed. Named after the reference's gemm_impl.
enum class GemmMode : std::uint8_t {
  bf16,  // the weight is dequantised, activations stay as they are
  fp8,   // activations are quantised per 128 entries of a row, products of codes are scaled in float32
};

// How attention is computed. Named after the reference's attn_impl.
enum class AttnImpl : std::uint8_t {
  absorb,  // queries go into the latent space; attends the latent cache itself
  naive,   // keys and values of each head are expanded from the latent cache
};

// The input of one pass: T tokens of S sequences, each token with its own position. All tensors are int32 on the
// backend's device.
struct Batch {
  Tensor ids;             // [T] token ids
  Tensor positions;       // [T] position of each token in its sequence, from 0
  Tensor slots;           // [T] row of the cache for each token: block * block_size + offset; -1 writes nothing
  Tensor seq_starts;      // [S + 1] tokens seq_starts[s] .. seq_starts[s + 1] belong to sequence s
  Tensor context_lens;    // [S] cached tokens of each sequence, this pass's included
  Tensor context_starts;  // [S + 1] running sum of context_lens
  Tensor block_tables;    // [S, max_blocks] cache blocks of each sequence, in order; unused entries are never read
  Tensor logit_rows;      // [N] tokens whose logits are wanted
  i64 total_context = 0;  // context_starts[S]: known to the host, so that the naive form can size its buffers
  i64 max_context = 0;    // the longest context

  i64 tokens() const { return ids.dim(0); }
  i64 sequences() const { return context_lens.dim(0); }
};

// The cache of one layer.
struct CacheLayer {
  Tensor latent;  // [blocks, block_size, kv_lora_rank + qk_rope_head_dim]: normalised latent, then rotated key
  i64 kv_lora_rank = 0;

  i64 block_size() const { return latent.dim(1); }
  i64 width() const { return latent.dim(2); }
};

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

// What attention over the latent cache needs besides queries, keys and batch.
struct LatentAttention {
  Tensor kv_norm;  // float32 [kv_lora_rank]
  float eps = 0;   // of that norm
  Tensor freqs;    // float32 [max_seq_len, rope / 2, 2]
  Tensor wk_b;     // [H, kv_lora_rank, nope]
  Tensor wv_b;     // [H, v, kv_lora_rank]
  float scale = 1;
};

// The second half of a block with experts, all of them on this device.
struct ExpertsLayer {
  Tensor norm;  // float32 [dim]
  float eps = 0;
  Weight gate;  // [E, dim]
  Tensor bias;  // float32 [E] or undefined
  RouteArgs route;
  Weight w1, w2, w3;                       // [E, inter, dim], [E, dim, inter], [E, inter, dim]
  Weight shared_w1, shared_w2, shared_w3;  // [shared, dim], [dim, shared], [shared, dim]
};

// Sampling of one token for each of N rows; row i's choice depends on its own parameters, seed and step alone.
struct SampleArgs {
  Tensor rows;  // u8 [N, sizeof(RowSampling)]: an array of RowSampling
  Tensor seen;  // [N, ceil(vocab / 8)] u8 bit set of tokens already in the sequence; undefined: none has a penalty
};

}  // namespace fathom
