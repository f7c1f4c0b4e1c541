// Context: all that a pass may touch besides its arguments. It is passed down; nothing here is global.
#pragma once

#include "comm/communicator.h"
#include "ops/backend.h"
#include "tensor/arena.h"

namespace fathom {

// Choices of arithmetic, fixed when a model is built.
struct ComputeOptions {
  DType compute = DType::bf16;  // type of activations and of the cache: bf16 or f32
  GemmMode gemm = GemmMode::bf16;
  AttnImpl attn = AttnImpl::absorb;
  // The reference rounds activation scales to powers of two (UE8M0) in plain Linear layers only, because its parallel
  // layers do not pass scale_fmt on. false: the weight's format decides, in every layer.
  bool reference_scale_fmt = false;
  bool fused = true;  // use the fused forms that the backend has; false: plain operations only
};

struct Context {
  Backend& backend;
  Arena& arena;
  Communicator& comm;
  ComputeOptions options;
};

}  // namespace fathom
